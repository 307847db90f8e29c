"""CSV (RFC 4180) with one line for each score."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vlbench.files import harmless
from vlbench.report.export import Selection
from vlbench.report.notes import notes_of
from vlbench.report.table import Entry

COLUMNS = ("task", "version", "model", "metric", "at", "is_primary", "value", "stderr", "ci95_low",
           "ci95_high", "n", "unit", "higher_is_better", "chance", "floors", "verdict", "published",
           "published_where", "difference", "difference_in_stderr", "against_leader", "comparable",
           "request", "weights", "adapter", "data", "data_name", "vlbench", "finished", "paper",
           "notes")  # fmt: skip
# The columns with a fact of the row, of the row's provenance, and of the score, by its name.
OF_ROW = ("task", "version", "model", "comparable", "request", "paper")
OF_PROVENANCE = ("weights", "adapter", "data", "vlbench")
OF_SCORE = ("metric", "value", "stderr", "n", "unit", "chance", "verdict")


def text(selection: Selection) -> str:
    """Return the header and a line for each score, each ended by carriage return and line feed."""
    entries = selection.entries
    return lines(COLUMNS, (_line(one, i) for one in entries for i in range(len(one.row.scores))))


def lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the header and a line for each row, each ended by carriage return and line feed."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: harmless(v) for k, v in row.items()})
    return file.getvalue()


def _line(entry: Entry, i: int) -> dict[str, Any]:
    row, score, given = entry.row, entry.row.scores[i], entry.published[i]
    low, high = score.ci95 or (None, None)
    is_primary = score is entry.primary
    return {
        **{name: getattr(row, name) for name in OF_ROW},
        **{name: str(row.provenance.get(name, "")) for name in OF_PROVENANCE},
        **{name: getattr(score, name) for name in OF_SCORE},
        "at": _text(score.at),
        "is_primary": _truth(is_primary),
        "ci95_low": low,
        "ci95_high": high,
        "higher_is_better": _truth(score.higher_is_better),
        "floors": _text(score.floors),
        "published": given.value if given else None,
        "published_where": given.where if given else None,
        "difference": given.difference if given else None,
        "difference_in_stderr": given.in_stderr if given else None,
        "against_leader": entry.standing if is_primary else None,
        "data_name": entry.data,
        "finished": str(row.run.get("finished", "")),
        "notes": " | ".join(notes_of(row)),
    }


def _text(values: Mapping[str, Any]) -> str:
    """Return a mapping as JSON, the same text as in a table of items."""
    return json.dumps(dict(values), sort_keys=True, ensure_ascii=False, allow_nan=False)


def _truth(value: bool | None) -> str:
    return {True: "true", False: "false", None: ""}[value]
