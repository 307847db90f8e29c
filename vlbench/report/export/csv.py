"""CSV (RFC 4180) with one line for each score."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vlbench.report.export import Selection
from vlbench.report.table import Entry, score_columns
from vlbench.system.files import harmless

COLUMNS = ("task", "version", "model", "metric", "at", "is_primary", "value", "stderr", "ci95_low",
           "ci95_high", "n", "unit", "higher_is_better", "chance", "floors", "verdict", "published",
           "published_where", "difference", "difference_in_stderr", "against_leader", "comparable",
           "request", "weights", "adapter", "data", "data_name", "vlbench", "finished", "paper",
           "notes")  # fmt: skip
# The columns with a fact of the row, of the row's provenance, and of the paper's value.
OF_ROW = ("task", "version", "model", "comparable", "request", "paper")
OF_PROVENANCE = ("weights", "adapter", "data", "vlbench")
OF_PAPER = ("published", "published_where", "difference", "difference_in_stderr")


def text(selection: Selection) -> str:
    """Return the header and a line for each score, each ended by carriage return and line feed."""
    rows = (_line(entry, i) for entry in selection.entries for i in range(len(entry.row.scores)))
    return lines(COLUMNS, ({name: _text(fact) for name, fact in row.items()} for row in rows))


def lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the header and a line for each row, each ended by carriage return and line feed."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({column: harmless(row.get(column)) for column in columns})
    return file.getvalue()


def _line(entry: Entry, i: int) -> dict[str, Any]:
    row, score = entry.row, entry.row.scores[i]
    is_primary = score is entry.primary
    return {
        **{name: getattr(row, name) for name in OF_ROW},
        **{name: str(row.provenance.get(name, "")) for name in OF_PROVENANCE},
        **score_columns(row, score),
        **dict(zip(OF_PAPER, entry.published[i] or (), strict=False)),
        "is_primary": is_primary,
        "against_leader": entry.standing if is_primary else None,
        "data_name": entry.data,
        "finished": str(row.run.get("finished", "")),
    }


def _text(fact: Any) -> Any:
    """Return a mapping, `true` or `false` as JSON; a mapping has the text of a table of items."""
    if not isinstance(fact, bool | Mapping):
        return fact
    return json.dumps(fact, sort_keys=True, ensure_ascii=False, allow_nan=False)
