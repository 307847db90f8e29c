"""Score, Outcome and Result: the output of a probe, and the row of a board made from it.

The fields and their types are the schema with which boards are read.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict

from vlbench.errors import SpecError, listed

if TYPE_CHECKING:  # reading a board must not cost the import of torch
    import pyarrow as pa
    import torch

    from vlbench.metrics.items import Items

    Artifact: TypeAlias = torch.Tensor | pa.Table | Path
else:
    Artifact = Any

# A count among the parameters of a probe: 1 or more.
Positive: TypeAlias = Annotated[int, range(1, sys.maxsize)]

# Whole numbers stay whole on a board.
Number: TypeAlias = int | float

At = Mapping[str, str | Number]

# The decision about a job, and how work ended; a row is ok, skipped or failed.
Status: TypeAlias = Literal["run", "kept", "skipped", "unavailable", "failed", "ok"]

# The columns of a table of items (made by `vlbench.metrics.items`), and the name of its artifact.
ITEM_COLUMNS = (
    *("id", "digest", "cluster", "metric", "at", "trial", "credit", "prediction", "target"),
)
ITEMS = "items"

# The artifact with what a model said, and its columns (made by `vlbench.metrics.replies`).
ANSWERS = "answers"
REPLY_COLUMNS = (
    *("item", "id", "options", "order", "target", "reply", "characters", "unread", "labels"),
)

# Columns of items with few distinct texts, and the bytes and values of a page of a table.
CODED = ("metric", "at", "trial", "prediction", "target")
PAGE = 1 << 24

# How a model that generates was prompted; rows do not name the usual ways, score and similarity.
ASKED = ("likelihood", "letter", "words")

# A fraction that exceeds 1 by less than this counts as 1.
ROUNDING = 1e-9

# The least and the greatest value of a score; None if there is no such limit.
Range: TypeAlias = tuple[Number | None, Number | None]

# The range of the scores of each unit; scores of other units have no limits.
RANGES: Mapping[str, Range] = {
    **dict.fromkeys(("fraction", "probability", "index"), (0.0, 1.0)),
    **dict.fromkeys(("correlation", "cosine"), (-1.0, 1.0)),
    **dict.fromkeys(("classes", "pairs", "words"), (0.0, None)),
    "perplexity": (1.0, None),
    "CIDEr": (0.0, 10.0),
}


class _Unstated(str):
    """The unit of a score that states none."""

    __slots__ = ()


def _in_brief(score: Score | None) -> str:
    """Return a score with its conditions, interval and n, in a few words."""
    if score is None:
        return "no score"
    at = "".join(f", {key} {value}" for key, value in score.at.items())
    low, high = score.ci95 or (None, None)
    around = f" [{low:.4g}, {high:.4g}]" if score.ci95 else ""
    verdict = f", {score.verdict}" if score.verdict else ""
    return f"{score.metric}{at}: {score.value:.4g}{around}, n {score.n}{verdict}"


@dataclass(frozen=True, repr=False)
class Score:
    """A metric's value under the conditions `at`, with what a reader needs to judge it.

    `n` counts the independent items. `chance` is the score of guessing. `floors` are scores that a
    working model should beat; `no_chance` is the reason if there is neither. `higher_is_better` is
    None if neither is: no model leads by such a score, and its cells have no shade. `verdict`
    states in a few words whether the score is a finding by the test of its probe; every view prints
    it beside the value. `draws` has the value of each trial of a mean. `halves` has the values on
    random halves of the items, or on bootstrap samples, the same for all models, if items depend on
    each other or determine what is scored: they vary as much as the score would with other items.
    `range` is given if it differs from the range of the unit, as for a difference of two fractions.
    Your probe should set `unit="fraction"` if a score without chance is a fraction. Raises
    ValueError if a number is not finite, and TypeError for values that a board cannot contain.
    """

    metric: str
    value: Number
    n: int
    at: At = field(default_factory=dict)
    stderr: Number | None = None
    ci95: tuple[Number, Number] | None = None
    chance: Number | None = None
    floors: Mapping[str, Number] = field(default_factory=dict)
    draws: Sequence[Number] = ()
    unit: str = _Unstated("fraction")
    higher_is_better: bool | None = True
    range: Range | None = None
    no_chance: str = ""
    halves: Sequence[Number] = ()
    verdict: str = ""

    def __post_init__(self) -> None:
        """Reject values that a board cannot contain."""
        limits = (*(self.ci95 or ()), *(self.range or ()))
        optional = [x for x in (self.stderr, self.chance, *limits) if x is not None]
        conditions = [x for x in self.at.values() if not isinstance(x, str)]
        values = [self.value, *self.floors.values(), *self.draws, *self.halves]
        numbers = [*values, *optional, *conditions]
        _require_types(numbers, int, float)
        _require_types([self.n], int)
        _require_types([self.higher_is_better], bool, type(None))
        words = [x for x in self.at.values() if isinstance(x, str)]
        _require_texts([self.metric, self.unit, self.no_chance, self.verdict])
        _require_texts([*self.at, *words, *self.floors])
        if self.ci95 is not None and len(self.ci95) != 2:
            message = f"{self.metric} at {dict(self.at)} has a ci95 of {len(self.ci95)} numbers"
            raise ValueError(message)
        if not all(map(math.isfinite, numbers)):
            message = f"{self.metric} at {dict(self.at)} is not finite: {numbers}"
            raise ValueError(message)
        if self.unit == "fraction" and self.range is None and self.value > 1 + ROUNDING:
            message = (
                f"{self.metric} at {dict(self.at)} is {self.value}, and a fraction is 1 at most; "
                'say what it is, as in Score(..., unit="images"), or give its `range`'
            )
            raise ValueError(message)

    def __repr__(self) -> str:
        """Return the score in one line."""
        return f"<{_in_brief(self)}>"

    @property
    def lower_is_better(self) -> bool:
        """Whether lower values are better; False if the score has no direction."""
        return self.higher_is_better is False

    @property
    def limits(self) -> Range:
        """The least and the greatest value that the score can have."""
        return self.range or RANGES.get(self.unit, (None, None))

    def with_unit(self, *, is_fraction: bool) -> Score:
        """Return the score with its unit stated: "number" if it states none and is no fraction.

        A chance above 0 also marks a fraction: the chance of a correlation or a difference is 0. A
        number that may be a fraction keeps the limits of a fraction.
        """
        if not isinstance(self.unit, _Unstated):
            return self
        if is_fraction or (self.chance is not None and 0 < self.chance <= 1):
            return replace(self, unit="fraction")
        return replace(self, unit="number", range=self.limits if self.is_possible else None)

    def within_limits(self) -> Score:
        """Return the score with its interval cut to its range."""
        if self.ci95 is None or not self.is_possible:
            return self
        least, greatest = self.limits
        low, high = self.ci95
        low = low if least is None else max(low, least)
        return replace(self, ci95=(low, high if greatest is None else min(high, greatest)))

    @property
    def is_possible(self) -> bool:
        """Whether the value is within its range."""
        least, greatest = self.limits
        return (least is None or least <= self.value) and (
            greatest is None or self.value <= greatest
        )


def score_row(score: Score) -> dict[str, Any]:
    """Return a score as in a board's file.

    The range is included only if it differs from the range of the unit; `halves`, `no_chance` and
    `verdict` only if the score has them.
    """
    row, optional = asdict(score), {"range", "no_chance", "halves", "verdict"}
    return {key: row[key] for key in row if row[key] or key not in optional}


def gain_range(limits: Range) -> Range:
    """Return the range of a difference of two scores with these limits."""
    least, greatest = limits
    if least is None or greatest is None:
        return None, None
    return least - greatest, greatest - least


@dataclass(frozen=True, repr=False)
class Outcome:
    """What a probe returns: scores, counts, artifacts to save, notes for the reader, and items.

    `metrics` has the items of each metric that is a mean over items, of which the harness makes the
    scores (`vlbench.metrics.scores`). `scores` are finished: for what is no mean of items. `items`
    has the credit of each example behind finished scores.
    `asked_by` is how a model that can be prompted in several ways was prompted: by similarity,
    score, likelihood, letter or words.
    """

    scores: Sequence[Score] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    notes: Sequence[str] = ()
    items: pa.Table | None = None
    asked_by: str = ""
    metrics: Sequence[Items] = ()

    def __post_init__(self) -> None:
        """Reject values that a board cannot contain."""
        _require_types(list(self.counts.values()), int)
        _require_texts([*self.counts, *self.artifacts])
        _require_types([*self.notes, self.asked_by], str)
        for name, artifact in self.artifacts.items():
            module = type(artifact).__module__.partition(".")[0]
            if not isinstance(artifact, Path) and module not in {"torch", "pyarrow"}:
                kind = type(artifact).__name__
                raise TypeError(f"artifact '{name}' is a {kind}; give a tensor, a table or a path")
        if ITEMS in self.artifacts:
            raise ValueError(f"an artifact is named '{ITEMS}'; give the table as `items`")
        absent = set(ITEM_COLUMNS) - set([] if self.items is None else self.items.column_names)
        if self.items is not None and absent:
            raise ValueError(f"items do not have the columns {', '.join(sorted(absent))}")

    def __repr__(self) -> str:
        """Return the first score, and the number of scores, in one line."""
        first = _in_brief(self.scores[0] if self.scores else None)
        return f"<{len(self.scores)} scores; {first}>"

    def saved(self) -> dict[str, Artifact]:
        """Return the artifacts to save, including the items."""
        items = {} if self.items is None else {ITEMS: self.items}
        return {**self.artifacts, **items}


class SavedArtifact(TypedDict):
    """The entry of an artifact in a row: its file, relative to the board, and its sha256."""

    file: str
    sha256: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """A row of a task's board: the scores of one model, or the reason why it has none."""

    task: str
    version: int
    paper: str
    primary: Mapping[str, Any]
    model: str
    status: str  # ok, skipped or failed
    reason: str = ""
    comparable: str = ""
    request: str = ""
    scores: Sequence[Score] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    artifacts: Mapping[str, SavedArtifact] = field(default_factory=dict)
    notes: Sequence[str] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the task, the model and the primary score, or the reason, in one line."""
        score = _in_brief(self.primary_score) if self.status == "ok" else self.reason
        return f"<{self.task} by {self.model}, {self.status}: {score}>"

    @property
    def primary_score(self) -> Score | None:
        """The task's primary score; None if the row has no scores."""
        matches = matching(self.scores, self.primary)
        return matches[0] if matches else None

    @property
    def is_partial(self) -> bool:
        """Whether rows of the official data were missing."""
        return self.absent_rows > 0

    @property
    def absent_rows(self) -> int:
        """The number of missing rows of the official data, in all splits; n may count others."""
        return self.counts.get("expected", 0) - self.counts.get("n", 0)

    @property
    def is_control(self) -> bool:
        """Whether the adapter is a control, which ignores its inputs: no evidence, no rival."""
        return bool(self.provenance.get("control"))

    @property
    def marks(self) -> list[str]:
        """The marks beside the model's name: recorded, how it was prompted, and own parameters."""
        how = str(self.provenance.get("asked_by", ""))
        marks = ["recorded"] if self.is_recorded else []
        marks += [f"{key}={json.dumps(value)}" for key, value in self.task_params.items()]
        return marks + ([f"by {how}" if how != "words" else "in words"] if how in ASKED else [])

    @property
    def task_params(self) -> Mapping[str, Any]:
        """The parameters that the run set instead of the values in the task's file."""
        params = self.provenance.get("task_params")
        return params if isinstance(params, dict) else {}

    @property
    def is_recorded(self) -> bool:
        """Whether others recorded the model's answers, which vlbench scored."""
        return str(self.provenance.get("weights", "")).startswith("recorded")

    @property
    def label(self) -> str:
        """The model's name, whether it is a control, and its marks."""
        marks = [*(["control"] if self.is_control else []), *self.marks]
        return f"{self.model} ({', '.join(marks)})" if marks else self.model

    @property
    def is_mostly_tied(self) -> bool:
        """Whether more than half of the choices were tied: of `choices` if counted, otherwise of n.

        A tied choice scores at chance, so such a score shows little about the model.
        """
        choices = self.counts.get("choices", self.counts.get("n", 0))
        return 2 * self.counts.get("ties", 0) > choices

    def row(self) -> dict[str, Any]:
        """Return the row as in a board's file: plain values, every key."""
        row = asdict(self)
        for key in ("task", "version", "paper", "primary"):
            del row[key]
        return row | {"scores": [score_row(score) for score in self.scores]}


def require_primary(outcome: Outcome, primary: Mapping[str, Any], where: str) -> None:
    """Raise SpecError unless a task's primary matches exactly one of the scores."""
    matches = matching(outcome.scores, primary)
    if len(matches) != 1:
        scores = listed({f"{s.metric} at {dict(s.at)}" for s in outcome.scores})
        near = get_close_matches(primary["metric"], {s.metric for s in outcome.scores}, 1)
        hint = f"; did you mean {near[0]}?" if near and not matches else ""
        problem = f"must match exactly one score, but matches {len(matches)} of: {scores}{hint}"
        raise SpecError(f"{where}: primary {dict(primary)} {problem}")


# Counts in a row that make its scores void, with the reason: runs with the same few sentences for
# all images.
VOID = {"collapsed_runs": "its captioner collapsed to few sentences"}


def counts_of(outcome: Outcome, primary: Mapping[str, Any], missing: int) -> dict[str, int]:
    """Return a row's counts: `expected` is `n` plus missing official rows and unanswered items."""
    n = matching(outcome.scores, primary)[0].n
    counts = {"n": n, "ties": 0, "truncated_texts": 0, "clusters": n, **outcome.counts}
    return {"expected": counts["n"] + missing + counts.get("unanswered", 0)} | counts


def artifact_bytes(artifact: Any) -> tuple[str, bytes]:
    """Return an artifact's file suffix and bytes; it is a tensor, a table, or a file to move."""
    if isinstance(artifact, Path):
        return artifact.suffix, artifact.read_bytes()
    if hasattr(artifact, "detach"):
        from safetensors.torch import save  # noqa: PLC0415 - reading boards must not import torch

        return ".safetensors", save({"data": artifact.detach().cpu().resolve_neg().contiguous()})
    return ".parquet", _parquet(artifact)


def _parquet(table: pa.Table) -> bytes:
    """Return a table as Parquet, small but fast to write and to read.

    Columns of items with few distinct texts are dictionary-coded. The other columns are whole texts
    in one page, because zstd finds the repetitions of trials only in texts within a page. Items of
    vlbench's boards are a quarter smaller than with pyarrow's defaults; level 17 takes seven times
    as long for a sixth less.
    """
    import pyarrow as pa  # noqa: PLC0415 - only a run that has tables needs it
    import pyarrow.parquet as pq  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    # Older versions of pyarrow have no such limit.
    limits = {"max_rows_per_page"} & {*signature(pq.ParquetWriter).parameters}
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=9,
        use_dictionary=[*CODED],
        data_page_size=PAGE,
        # Readers of items need neither, and they are a tenth of a table of a thousand items.
        write_statistics=False,
        store_schema=False,
        **dict.fromkeys(limits, PAGE),
    )
    return bytes(sink.getvalue().to_pybytes())


def _require_types(values: Sequence[Any], *kinds: type) -> None:
    """Raise TypeError for values of other types, such as NumPy's numbers, not known to JSON."""
    if {*map(type, values)} <= {*kinds}:  # fast path for the million values of a board
        return
    for value in values:
        if type(value) not in kinds:
            names = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{value!r} is of type {type(value).__name__}; give {names}")


def _require_texts(values: Sequence[Any]) -> None:
    if {*map(type, values)} <= {str} and all(map(str.isascii, values)):
        return
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is of type {type(value).__name__}; give str")
        if not value.isascii() and value != value.encode("utf-8", "ignore").decode():
            raise ValueError(f"{value!r} cannot be encoded as UTF-8")


def matching(scores: Sequence[Score], primary: Mapping[str, Any]) -> list[Score]:
    """Return the scores of a primary's metric under exactly its conditions."""
    at = dict(primary.get("at", {}))
    return [s for s in scores if s.metric == primary["metric"] and dict(s.at) == at]
