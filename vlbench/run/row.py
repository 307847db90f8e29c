"""Rows: made from jobs, with or without scores, and written to boards."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vlbench._version import __version__
from vlbench.boards import board
from vlbench.boards.privacy import cleaned, cut, secrets_in, shown
from vlbench.capabilities import ImageEncoder, Recording, has
from vlbench.catalog.data_sets import data_sets
from vlbench.catalog.listed_capabilities import needs_of
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.task_files import EVERY
from vlbench.code.fingerprints import as_path
from vlbench.code.identity import library_versions
from vlbench.data.pictures import apart_from_regions
from vlbench.data.records import Data, copies, overlaps
from vlbench.metrics.intervals import ROUNDING, unvaried
from vlbench.results import Outcome, Result, Score, counts_of
from vlbench.run.job import Job
from vlbench.run.live_models import LiveModels
from vlbench.run.model import ENCODE_BY, Model
from vlbench.run.options import Options
from vlbench.schema import map_leaves, parameters
from vlbench.system.digests import digest

# The value for facts that a recording does not state.
UNKNOWN = "unknown"

_COPIES = (
    "data: {} images of {} are copies of other images under other names; scores with items have "
    "the intervals of distinct images"
)


class ComparableParts(NamedTuple):
    """Digests of the data and of companions' views of them, and the kind of regions."""

    data: str
    regions: str | None
    views: Mapping[str, Any]


def provenance_of(job: Job, models: LiveModels) -> dict[str, Any]:
    """Return the `provenance` of a row, which is the same on every rerun."""
    assert job.data
    live, base = models.get(job.model), job.model.base
    adapter = models.get(base).adapter
    # `settled` are the arguments that an adapter took from its weights.
    arguments = _with_defaults(base.adapter, base.arguments)
    arguments |= getattr(adapter, "settled", {})
    arguments |= {ENCODE_BY: base.encode_by} if job.model.encoded_by else {}
    companions = {one.name: models.get(one).weights for one in job.task.all_companions}
    return {
        "vlbench": code_version(),
        "adapter": live.source,
        "params": shown_arguments(arguments),
        "weights": shown_weights(arguments, live.weights),
        **({"task_params": shown_arguments(job.task.given)} if job.task.given else {}),
        "data": f"{job.task.spec.data['loader']} {job.data.digest()}",
        **_data_name(job),
        "companions": companions,
        "dtype": str(models.dtype).removeprefix("torch."),
        "libraries": library_versions([job.task.probe, base.adapter, type(live.adapter)]),
        **_title(job),
        **({"control": True} if getattr(adapter, "is_control", False) else {}),
    }


def _title(job: Job) -> dict[str, str]:
    """Return the title of a task that is not shipped; a reader may not have its file."""
    spec = job.task.spec
    is_shipped = spec.source == shipped_source()
    return {"title": _clean(job, spec.title)} if spec.title and not is_shipped else {}


def _data_name(job: Job) -> dict[str, str]:
    """Return the name of the folder or repository from which data without a name are read.

    A table that the user names follows the folder. Published data sets are named by their loaders.
    """
    arguments = job.task.loader_arguments
    place = arguments.get("repository") or arguments.get("root")
    if place is None or job.task.spec.data["loader"] in data_sets():
        return {}
    table = Path(str(arguments.get("test", "")))
    return {
        "data_name": f"{shown(place)}/{shown(table)}" if table.is_absolute() else str(shown(place))
    }


def comparable_of(job: Job, models: LiveModels) -> str:
    """Return `comparable`: the digest of what rows must share to be compared."""
    parts = comparable_parts(job)
    companions = {
        key: [
            [models.get(one).source, models.get(one).weights, shown_arguments(one.base.arguments)]
            for one in group
        ]
        for key, group in job.task.companions.items()
    }
    shared: list[Any] = [job.task.fixed, parts.data, companions, parts.regions]
    return digest([*shared, parts.views] if parts.views else shared)


def comparable_parts(job: Job) -> ComparableParts:
    """Return the data that comparable rows share.

    If the task sets compare_across_regions, the region kind is not part of `comparable`; regions
    that companions read are.
    """
    assert job.data
    if not job.task.spec.compare_across_regions:
        reads = bool(job.task.regions) or _sees_regions_alone(job)
        regions = job.model.spec.regions.get("kind") if reads else None
        digests = {key: data.digest() for key, data in job.views.items()}
        return ComparableParts(job.data.compared_by(), regions, digests)
    read = {
        key: [_regions_of(one, job.views.get(one.key, job.data)) for one in group]
        for key, group in job.task.companions.items()
    }
    views = {key: kinds for key, kinds in read.items() if any(kinds)}
    return ComparableParts(apart_from_regions(job.data).compared_by(), None, views)


def _regions_of(companion: Model, data: Data) -> str | None:
    """Return the digest of the data with the regions a companion reads; None if it reads none."""
    has_some = data.digest() != apart_from_regions(data).digest()
    return data.digest() if has_some and "kind" in companion.spec.regions else None


def shown_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a row shows them: local paths as file names, no secrets."""
    paths = {
        key: map_leaves(value, lambda _, leaf: leaf if isinstance(leaf, Path) else as_path(leaf))
        for key, value in arguments.items()
    }
    return {key: shown(value, key) for key, value in paths.items()}


def shown_weights(arguments: Mapping[str, Any], weights: str) -> str:
    """Return the weights as a row shows them: their digest, or `random:<seed>`."""
    random = arguments.get("weights") == "random"
    return f"random:{arguments.get('init_seed', 0)}" if random else weights


def code_version() -> str:
    """Return vlbench's version; in a checkout also the commit, and `dirty` if files changed."""
    root = shipped_source()
    if not (root / ".git").exists():
        return __version__
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", "vlbench", "tasks", "model_adapters")
    except (OSError, subprocess.CalledProcessError):
        return f"{__version__}+unknown"
    return f"{__version__}+{commit}{'.dirty' if changed else ''}"


def _with_defaults(adapter: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments together with the plain defaults of arguments that were not given."""
    defaults = {name: p.default for name, p in parameters(adapter).items() if name != "device"}
    plain = (bool, int, float, str)
    return {k: v for k, v in defaults.items() if type(v) in plain} | dict(arguments)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - ours
    return done.stdout.strip()


def without_scores(job: Job, status: str, reason: str) -> Result:
    """Return the row of a job that was skipped or failed, with the reason."""
    return replace(_head(job), status=status, reason=_clean(job, reason))


def skip_for_limit(job: Job, reason: str) -> Result:
    """Return the row of a job for which --limit leaves too few rows, with the reason."""
    return replace(without_scores(job, "skipped", "limit"), notes=[_clean(job, reason)])


def begin_row(job: Job, models: LiveModels) -> Result:
    """Return the row of a job that is about to run, without the outcome of its probe."""
    return replace(
        _head(job),
        comparable=comparable_of(job, models),
        provenance=provenance_of(job, models),
    )


def make_row(row: Result, job: Job, outcome: Outcome, run: Mapping[str, Any]) -> Result:
    """Return the row from `begin_row` with the outcome of the job's probe."""
    assert job.data
    missing = job.data.missing_rows()
    notes = [
        f"partial: {split} lacks {n} of {job.data.expected[split]} rows"
        for split, n in missing.items()
    ]
    notes += [f"left out: {n} {what}" for what, n in job.data.dropped.items()]
    notes += job.data.notes
    counts = counts_of(outcome, row.primary, sum(missing.values()))
    counts |= {"dropped": sum(job.data.dropped.values())} if job.data.dropped else {}
    copied = {split: n for split, rows in job.data.splits.items() if (n := copies(rows))}
    shared = _shared_rows(job.data)
    counts |= {"copies": sum(copied.values())} if copied else {}
    counts |= {"shared_rows": sum(shared.values())} if shared else {}
    is_shipped = job.task.probe.__module__.startswith("vlbench.probes.")
    stated = [score.with_unit(is_fraction=is_shipped) for score in outcome.scores]
    if copied and outcome.items is not None:
        from vlbench.metrics.copies import counting_copies_once  # noqa: PLC0415 - slow to import

        stated = [counting_copies_once(score, outcome.items) for score in stated]
    scores = [with_width(score.within_limits(), outcome.items) for score in stated]
    manner = {"asked_by": outcome.asked_by} if outcome.asked_by else {}
    provenance = {**row.provenance, **manner}
    scored = replace(row, scores=scores, counts=counts, provenance=provenance, run=run)
    notes += [
        *_tie_notes(scored),
        *_interval_notes(scored),
        *(_COPIES.format(n, split) for split, n in copied.items()),
        *(
            f"data: {n} of {len(job.data.splits[split])} rows of {split} are also in {other}"
            for (split, other), n in shared.items()
        ),
        *_argument_notes(job),
        *_region_notes(job),
        *_model_notes(job),
        *_server_notes(job),
        *_recording_notes(job, row.provenance.get("params", {})),
        *_encoding_notes(job),
        *(_clean(job, note) for note in outcome.notes),
    ]
    return replace(scored, notes=[*map(cut, notes)])


def with_width(score: Score, items: Any = None) -> Score:
    """Return a score with the interval of `unvaried` if its interval has no width.

    It is over the clusters of the score's `items`, or else over its n. If the score has no range,
    it then has neither interval nor standard error.
    """
    if score.ci95 is None or score.ci95[1] - score.ci95[0] >= ROUNDING:
        return score
    least, greatest = score.limits
    if least is None or greatest is None:
        return replace(score, stderr=None, ci95=None)
    count = score.n
    if items is not None:
        from vlbench.metrics.items import count_clusters  # noqa: PLC0415 - as above

        count = count_clusters(items, score.metric, score.at) or count
    _, stderr, ci95 = unvaried(score.value, count, least, greatest)
    return replace(score, stderr=stderr, ci95=ci95)


def _tie_notes(row: Result) -> list[str]:
    """Return a note with the number of tied choices, if most are tied."""
    ties, choices = row.counts["ties"], row.counts.get("choices", row.counts["n"])
    note = f"{ties:,} of {choices:,} choices are tied; a tied choice scores at chance"
    return [note] if row.is_mostly_tied else []


def _interval_notes(row: Result) -> list[str]:
    """Return a note that names the scores whose interval is their whole range."""
    whole = [score.metric for score in row.scores if score.ci95 and score.ci95 == score.limits]
    why = "the interval is the whole range: there are too few items or seeds"
    return [f"{', '.join(dict.fromkeys(whole))}: {why}"] if whole else []


def _argument_notes(job: Job) -> list[str]:
    """Return a note for each argument that the task requests and the adapter does not have."""
    requests, made = job.task.spec.model, job.model.base.instance is None
    why = (
        "the adapter has no argument `{}`" if made else "the adapter is an object made without `{}`"
    )
    return [
        f"{why.format(key)}: its own preprocessing is used"
        for key in requests
        if not job.model.base.takes(key)
    ]


def _shared_rows(data: Data) -> dict[tuple[str, str], int]:
    """Return how many rows two splits share, if any, by their names, the smaller split first."""
    sizes = {name: (len(split), name) for name, split in data.splits.items()}
    every = overlaps(data).items()
    return {(a, b): n for (a, b), n in every if n and sizes[a] < sizes[b]}


def _region_notes(job: Job) -> list[str]:
    """Return a note of the model's region kind, if rows of other kinds are on the same board."""
    kind = job.model.spec.regions.get("kind")
    beside_others = job.task.spec.compare_across_regions or _sees_regions_alone(job)
    return [f"regions: {kind}"] if kind and beside_others else []


def _sees_regions_alone(job: Job) -> bool:
    """Return whether a model that encodes no image reads the regions that come with the data."""
    assert job.data
    pictured = any("picture" in rows.columns for rows in job.data.splits.values())
    return (
        pictured
        and "kind" in job.model.spec.regions
        and not has(job.model.base.adapter, ImageEncoder)
    )


def _model_notes(job: Job) -> list[str]:
    """Return the notes of the model's entry that apply to what this task needs."""
    needs = {EVERY, *(needs_of(job.task.spec) or "").split(" | ")}
    return [note for key, note in job.model.spec.notes.items() if key in needs]


def _server_notes(job: Job) -> list[str]:
    """Return a note for each model of a job that runs on a server."""
    names = dict.fromkeys(model.served for model in job.models() if model.served is not None)
    why = "the weights are not known, so this row cannot be recomputed"
    return [f"served: {shown(name)}: {why}" for name in names]


def _recording_notes(job: Job, params: Mapping[str, Any]) -> list[str]:
    """Return the note on a recording, and the caution that its row states."""
    if not has(job.model.base.adapter, Recording):
        return []
    caution = str(params.get("caution", UNKNOWN))
    return ["recorded by others, scored by vlbench", *([] if caution == UNKNOWN else [caution])]


def _encoding_notes(job: Job) -> list[str]:
    """Return a note for the model and each companion whose regions a shipped adapter encodes."""
    companions = {f"regions of {one.name}": one for one in job.task.all_companions}
    whose = {"regions": job.model, **companions}
    return [
        f"{regions} are encoded by {model.encode_by}: {vars(model.adapter)['note']}"
        for regions, model in whose.items()
        if model.encoded_by
    ]


def _clean(job: Job, text: str) -> str:
    """Return a message without secrets and local paths, of limited length."""
    arguments = [model.arguments for model in job.models()]
    task = job.task.spec
    return cut(cleaned(text, secrets_in([*arguments, task.data, task.params])))


def _head(job: Job) -> Result:
    spec = job.task.spec
    return Result(
        task=spec.name,
        version=spec.version,
        paper=spec.paper,
        primary=spec.primary_score,
        model=job.model.name,
        status="ok",
        request=job.request,
    )


class RowWriter:
    """Writes rows to the boards of a run; only one process writes, and none with --limit.

    Raises OutputError if boards cannot be written, before anything is computed for them.
    """

    def __init__(self, options: Options, *, writes: bool) -> None:
        is_written = writes and options.limit is None
        self._output: Path | None = options.output if is_written else None
        self._overwrite = options.overwrite
        if self._output:
            board.require_writable(self._output)

    def refuse_clash(self, row: Result) -> None:
        """Raise IdentityClash if the board has this row's name with other weights or source."""
        if self._output and not self._overwrite:
            board.refuse_clash(self._output, row)

    def write(self, row: Result, outcome: Outcome | None = None) -> Result:
        """Add a row to its task's board, with the artifacts of its outcome, and return it.

        Raises IdentityClash if another run has written other weights there under the same name.
        """
        if not self._output:
            return row
        artifacts = outcome.saved() if outcome else {}
        return board.write_result(self._output, row, artifacts, overwrite=self._overwrite)
