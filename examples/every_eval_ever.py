"""Writes boards as records of Every Eval Ever, schema 0.3.0 (github.com/evaleval/every_eval_ever).

    python examples/every_eval_ever.py BOARD... --to DIR [--organization NAME]

Without BOARDs, it writes every board. A row becomes
`data/vlbench/<organisation>/<model>/<uuid>.json`, with a file of its items beside it
if the row has items. Ids come from the digest of the row's request, never from a time, so the same
row gives the same files. The retrieval time is the time at which the row was finished.

It imports modules of vlbench that docs/plugins.md does not promise: it belongs to this release.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

from vlbench.boards.artifacts import read_items
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.library_names import row_name
from vlbench.catalog.specs import ModelSpec
from vlbench.commands.parser import add_output
from vlbench.errors import DataError, VlbenchError, counted, require_known
from vlbench.metrics.items import STATISTICS, at_text
from vlbench.report.data_sets import loader_of
from vlbench.report.export import File, LeftOut, Selection, left_out_lines, select
from vlbench.report.export.hf import hub_set, model_id
from vlbench.report.notes import notes_of
from vlbench.report.rows import named_boards
from vlbench.report.table import Entry
from vlbench.results import ITEMS, Result, Score
from vlbench.system.files import write_whole

COLLECTION = "vlbench"
UNKNOWN = "unknown"
_PLAIN = {"credit": pa.float64()}
SCHEMA = "0.3.0"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the records, print the rows left out, and return the exit code."""
    parser = argparse.ArgumentParser(description="Write boards as records of Every Eval Ever.")
    parser.add_argument("boards", nargs="*", metavar="BOARD", help="default: every board")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="a folder")
    parser.add_argument("--models", default="", metavar="NAME,...", help="default: all, by name")
    parser.add_argument("--organization", default="", metavar="NAME", help="who ran these rows")
    parser.add_argument("--include-path", type=Path, action="append", default=[], metavar="DIR")
    add_output(parser)
    arguments = parser.parse_args(argv)
    try:
        written, left_out = _write(arguments)
    except VlbenchError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    sys.stdout.write(f"wrote {counted(written, 'file')} below {arguments.to}\n")
    sys.stderr.writelines(f"{line}\n" for line in left_out_lines(left_out))
    return 0 if written else 1


def _write(arguments: argparse.Namespace) -> tuple[int, Sequence[LeftOut]]:
    """Write the files, and return how many there are, and the rows left out."""
    boards = named_boards(arguments.output, arguments.boards)
    models = [row_name(name) for name in arguments.models.split(",") if name]
    require_known("model", models, {row.model for one in boards for row in one.results})
    catalog = load_catalog(arguments.include_path)
    selection = select(arguments.output, boards, catalog, models)
    written, left_out = 0, list(selection.left_out)
    for found in files(selection, arguments.organization):
        if isinstance(found, LeftOut):
            left_out.append(found)
        else:
            write_whole(arguments.to / found.place, found.content)
            written += 1
    return written, left_out


def result_id(row: Result, score: Score) -> str:
    """Return the id of a score within its record."""
    at = ",".join(f"{key}={value}" for key, value in sorted(score.at.items()))
    return f"{row.task}.v{row.version}/{score.metric}{'/' if at else ''}{at}"


def result_of(entry: Entry, i: int) -> dict[str, Any]:
    """Return one score of a row; the schema requires strings as values below `details`."""
    row, score, given = entry.row, entry.row.scores[i], entry.published[i]
    details = {
        "at": as_text(score.at),
        "comparable": row.comparable,
        **({} if score.chance is None else {"chance": repr(score.chance)}),
        **{f"floor.{name}": repr(value) for name, value in score.floors.items()},
        **({"verdict": score.verdict} if score.verdict else {}),
        **({"published": repr(given.value), "published_where": given.where} if given else {}),
        **{f"note.{k}": note for k, note in enumerate(notes_of(row))},
    }
    return {
        "evaluation_result_id": result_id(row, score),
        "evaluation_name": evaluation_of(row),
        "source_data": _data(entry),
        "metric_config": _metric(score),
        "score_details": {
            "score": score.value,
            "details": details,
            "uncertainty": _uncertainty(score),
        },
    }


def evaluation_of(row: Result) -> str:
    """Return the name of the evaluation: vlbench's task."""
    return f"{COLLECTION}.{row.task}"


def _data(entry: Entry) -> dict[str, Any]:
    row = entry.row
    details = {"data": str(row.provenance.get("data", UNKNOWN)), "data_name": entry.data}
    named = {"dataset_name": loader_of(row), "source_type": "other"}
    if dataset := hub_set(row):
        named = {"dataset_name": dataset.repository, "source_type": "hf_dataset"}
        named["hf_repo"] = dataset.repository
        details["revision"] = dataset.revision
    return {**named, "additional_details": details}


def _metric(score: Score) -> dict[str, Any]:
    """Return the description of a metric, with the range of its values if it has one."""
    named = {
        "metric_id": "accuracy" if score.metric == "accuracy" else f"{COLLECTION}.{score.metric}",
        "metric_name": score.metric,
        "metric_unit": "proportion" if score.unit == "fraction" else score.unit,
        "metric_parameters": dict(score.at),
        "lower_is_better": score.lower_is_better,
    }
    least, greatest = score.limits
    if least is None and greatest is None:
        return named
    low = "-Infinity" if least is None else least  # JSON has no infinite numbers
    high = "Infinity" if greatest is None else greatest
    return named | {"score_type": "continuous", "min_score": low, "max_score": high}


def _uncertainty(score: Score) -> dict[str, Any]:
    fields: dict[str, Any] = {"num_samples": score.n}
    if score.stderr is not None:
        fields["standard_error"] = {"value": score.stderr}
    if score.ci95:
        low, high = score.ci95
        fields["confidence_interval"] = {"lower": low, "upper": high, "confidence_level": 0.95}
    return fields


def as_texts(values: Any) -> dict[str, str]:
    """Return a mapping with its values as strings: strings unchanged, other values as JSON."""
    pairs = values.items() if isinstance(values, Mapping) else ()
    return {k: v if isinstance(v, str) else as_text(v) for k, v in pairs}


def as_text(value: Any) -> str:
    """Return a value as JSON; conditions are the same text as in a table of items."""
    plain = dict(value) if isinstance(value, Mapping) else value
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False)


class Trial(NamedTuple):
    """The columns of a table of items that are exported."""

    id: str
    digest: str
    metric: str
    at: str
    credit: float
    prediction: str | None
    target: str | None


class Scores(NamedTuple):
    """The fields that all records of a row share, and the id and score of each metric and `at`."""

    head: Mapping[str, str]
    ids: Mapping[tuple[str, str], tuple[str, Score]]


def sample_lines(output: Path, row: Result, scores: Scores) -> Iterator[dict[str, Any]]:
    """Yield the records of a row's items, in the order of its table.

    Items of a score that is not a mean over items (a corpus score) are left out. Raises DataError
    if the table cannot be read or does not fit the row.
    """
    table = read_items(output, row)
    if STATISTICS.name in table.column_names:
        table = table.filter(table[STATISTICS.name].is_null())
    columns = (
        table[name].cast(_PLAIN.get(name, pa.string())).to_pylist() for name in Trial._fields
    )
    trials: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in map(Trial._make, zip(*columns, strict=True)):
        trials.setdefault((trial.metric, trial.at, trial.id), []).append(trial)
    for metric, at, _ in trials:
        if (metric, at) not in scores.ids:
            raise DataError(f"its items have a score that the row does not have: {metric} at {at}")
    yield from (_line(scores, found) for found in trials.values())


def _line(scores: Scores, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the record of one item; the table has one row for each trial of the item."""
    first = trials[0]
    result, score = scores.ids[first.metric, first.at]
    raw = f"{first.id} {first.digest}"
    reference = [] if first.target is None else [first.target]
    credit = fmean([trial.credit for trial in trials])
    return {
        **scores.head,
        "evaluation_result_id": result,
        "sample_id": first.id,
        "sample_hash": hashlib.sha256("\n".join([raw, *reference]).encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": raw, "reference": reference},
        "output": {"raw": [t.prediction for t in trials if t.prediction is not None]},
        "answer_attribution": [],
        "evaluation": {"score": credit, "is_correct": credit == _best(score)},
    }


def _best(score: Score) -> float | None:
    """Return the best credit that an item can have; None if it is unlimited or none is better."""
    least, greatest = score.limits
    return {True: greatest, False: least, None: None}[score.higher_is_better]


def files(selection: Selection, organization: str = "") -> Iterator[File | LeftOut]:
    """Yield a record for each row, and a file of its items.

    `organization` ran the rows; it is empty if unknown.
    A row is left out if it has no identity or finishing time, or if a score is outside its range.
    Only its items are left out if they cannot be read.
    """
    known: set[str] = set()
    for entry in selection.entries:
        model = model_id(entry.row.model, selection.models)
        request = entry.row.request.split(":")[-1]
        name = f"{evaluation_of(entry.row)}.v{entry.row.version}/{model}/{request}"
        why = "another row answers the same request" if name in known else _unfit(entry.row)
        if why:
            yield LeftOut(entry.row, why)
        else:
            known.add(name)
            yield from _files(entry, name, model, selection, organization)


def _files(
    entry: Entry, name: str, model: str, selection: Selection, organization: str
) -> Iterator[File | LeftOut]:
    samples = b""
    try:
        samples = _samples(entry.row, name, model, selection.output)
    except DataError as error:
        yield LeftOut(entry.row, f"only its items: {error}")
    uuid = UUID(bytes=hashlib.sha256(name.encode()).digest()[:16], version=4)
    place = f"data/{COLLECTION}/{model}/{uuid}"
    kind = "evaluation_run" if samples else "documentation"
    head = {"schema_version": SCHEMA, "evaluation_id": name}
    described = _record(entry, model, kind, selection.models, organization)
    record = head | described | _sidecar(place, samples)
    yield File(f"{place}.json", (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    if samples:
        yield File(f"{place}_samples.jsonl", samples)


def _unfit(row: Result) -> str:
    """Return why a row cannot become a record; empty if it can."""
    if not row.request:
        return "it has no request, so it has no lasting identity"
    if _seconds_at_end(row) is None:
        return "it does not record when it finished"
    strange = [s for s in row.scores if not s.is_possible]
    return f"{strange[0].metric} of {strange[0].value:g} is outside its range" if strange else ""


def _seconds_at_end(row: Result) -> str | None:
    """Return when a row was finished, in seconds since 1970; None if the row does not record it."""
    try:
        moment = datetime.fromisoformat(row.run["finished"])
    except (KeyError, TypeError, ValueError):
        return None
    return str(int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))


def _record(
    entry: Entry, model: str, kind: str, models: Mapping[str, ModelSpec], organization: str
) -> dict[str, Any]:
    """Return the fields of a record that describe the row, without the record's id and items."""
    row, finished = entry.row, _seconds_at_end(entry.row)
    own = organization.lower() == model.partition("/")[0].lower()
    relation = "first_party" if own else "third_party"
    return {
        "evaluation_timestamp": finished,
        "retrieved_timestamp": finished,
        "source_metadata": {
            "source_name": "vlbench",
            "source_type": kind,
            "source_organization_name": organization or UNKNOWN,
            "evaluator_relationship": relation if organization else "other",
        },
        "eval_library": {
            "name": "vlbench",
            "version": str(row.provenance.get("vlbench", UNKNOWN)),
            "additional_details": as_texts(row.provenance.get("libraries")),
        },
        "model_info": _model(row, model, models),
        "evaluation_results": [result_of(entry, i) for i in range(len(row.scores))],
    }


def _model(row: Result, model: str, models: Mapping[str, ModelSpec]) -> dict[str, Any]:
    spec = models.get(row.model)
    is_known = spec is not None and spec.weights and not model.startswith("local/")
    known = ("weights", "adapter", "dtype", "params", "companions")
    details = {
        **as_texts({key: row.provenance[key] for key in known if key in row.provenance}),
        **({"weights_from": spec.weights} if spec and spec.weights else {}),
        "deployment_type": "self_deployed",
        "model_availability": "open_weights" if is_known else UNKNOWN,
    }
    return {"name": row.model, "id": model, "additional_details": details}


def _samples(row: Result, name: str, model: str, output: Path) -> bytes:
    """Return a row's items as lines of JSON; empty if the row keeps none."""
    if ITEMS not in row.artifacts:
        return b""
    head = {
        "schema_version": SCHEMA,
        "evaluation_id": name,
        "model_id": model,
        "evaluation_name": evaluation_of(row),
    }
    ids = {(s.metric, at_text(s.at)): (result_id(row, s), s) for s in row.scores}
    lines = sample_lines(output, row, Scores(head, ids))
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode()


def _sidecar(place: str, samples: bytes) -> dict[str, Any]:
    """Return the fields of a record that describe the file of its items; empty without items."""
    if not samples:
        return {}
    file = {
        "format": "jsonl",
        "file_path": f"{place}_samples.jsonl",
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(samples).hexdigest(),
        "total_rows": samples.count(b"\n"),
    }
    return {"detailed_evaluation_results": file}


if __name__ == "__main__":
    sys.exit(main())
