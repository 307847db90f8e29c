"""Records of Every Eval Ever, schema 0.3.0 (github.com/evaleval/every_eval_ever).

A row becomes `data/vlbench/<organisation>/<model>/<uuid>.json`; beside it lie its items, where it
has them. Ids come from the digest of the row's request, never from a time, so that the same row has
the same files. The time of retrieval is that at which the row was finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from vlbench.catalog.specs import ModelSpec
from vlbench.errors import DataError
from vlbench.leaderboard.export.eee_results import (
    COLLECTION,
    UNKNOWN,
    as_texts,
    evaluation_of,
    result_id,
    result_of,
)
from vlbench.leaderboard.export.naming import model_id
from vlbench.leaderboard.export.samples import Scores, sample_lines
from vlbench.leaderboard.export.selection import Entry, LeftOut, Selection
from vlbench.metrics.items import at_text
from vlbench.results import ITEMS, Result

SCHEMA = "0.3.0"


class File(NamedTuple):
    """One file of a format that has many: where it belongs in the folder, and what it holds."""

    place: str
    content: bytes


class Source(NamedTuple):
    """Where boards are, the models of the catalogue, and who ran the rows (perhaps nobody says)."""

    output: Path
    models: Mapping[str, ModelSpec]
    organization: str = ""


def records(selection: Selection, source: Source) -> Iterator[File | LeftOut]:
    """Yield a record for each row, and its items beside it.

    A row is left out where it has no identity or time, and where a score lies outside its range;
    its items alone, where they cannot be read.
    """
    known: set[str] = set()
    for entry in (entry for part in selection.parts for entry in part.entries):
        model = model_id(entry.row.model, source.models)
        name = _identity(entry.row, model)
        why = "another row answers the same request" if name in known else _unfit(entry.row)
        if why:
            yield LeftOut(entry.row, why)
        else:
            known.add(name)
            yield from _files(entry, name, model, source)


def _files(entry: Entry, name: str, model: str, source: Source) -> Iterator[File | LeftOut]:
    """Yield the files of one row."""
    samples = b""
    try:
        samples = _samples(entry.row, name, model, source.output)
    except DataError as error:
        yield LeftOut(entry.row, f"only its items: {error}")
    uuid = UUID(bytes=hashlib.sha256(name.encode()).digest()[:16], version=4)
    place = f"data/{COLLECTION}/{model}/{uuid}"
    kind = "evaluation_run" if samples else "documentation"
    head = {"schema_version": SCHEMA, "evaluation_id": name}
    record = head | _record(entry, model, kind, source) | _sidecar(place, samples)
    yield File(f"{place}.json", (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    if samples:
        yield File(f"{place}_samples.jsonl", samples)


def _unfit(row: Result) -> str:
    """Return why a row can be no record; nothing where it can."""
    if not row.request:
        return "it has no request, so no identity that lasts"
    if _finished(row) is None:
        return "it does not say when it was finished"
    strange = [s for s in row.scores if not s.is_possible]
    return f"{strange[0].metric} of {strange[0].value:g} lies outside its range" if strange else ""


def _identity(row: Result, model: str) -> str:
    return f"{evaluation_of(row)}.v{row.version}/{model}/{row.request.split(':')[-1]}"


def _finished(row: Result) -> str | None:
    """Return when a row was finished, in seconds since 1970; None where it does not say."""
    try:
        moment = datetime.fromisoformat(row.run["finished"])
    except (KeyError, TypeError, ValueError):
        return None
    return str(int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))


def _record(entry: Entry, model: str, kind: str, source: Source) -> dict[str, Any]:
    """Return what a record says of a row, without its own name and items."""
    row, finished = entry.row, _finished(entry.row)
    own = source.organization.lower() == model.partition("/")[0].lower()
    relation = "first_party" if own else "third_party"
    return {
        "evaluation_timestamp": finished,
        "retrieved_timestamp": finished,
        "source_metadata": {
            "source_name": "vlbench",
            "source_type": kind,
            "source_organization_name": source.organization or UNKNOWN,
            "evaluator_relationship": relation if source.organization else "other",
        },
        "eval_library": {
            "name": "vlbench",
            "version": str(row.provenance.get("vlbench", UNKNOWN)),
            "additional_details": as_texts(row.provenance.get("libraries")),
        },
        "model_info": _model(row, model, source),
        "evaluation_results": [result_of(entry, i) for i in range(len(row.scores))],
    }


def _model(row: Result, model: str, source: Source) -> dict[str, Any]:
    spec = source.models.get(row.model)
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
    """Return a row's items as lines of JSON; nothing where the row keeps none."""
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
    """Return what a record says of the file of its items; nothing without one."""
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
