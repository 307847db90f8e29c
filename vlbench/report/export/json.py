"""One JSON document with the rows as they are on their boards."""

from __future__ import annotations

import json
from typing import Any

from vlbench.report.export import Selection
from vlbench.report.table import Entry

SCHEMA = 1


def text(selection: Selection) -> str:
    """Return the document in ASCII, which is safe to print."""
    rows = [_row(entry) for entry in selection.entries]
    return json.dumps({"schema": SCHEMA, "rows": rows}, indent=1, allow_nan=False) + "\n"


def _row(entry: Entry) -> dict[str, Any]:
    result = entry.row
    row = result.row()
    for score, paper in zip(row["scores"], entry.published, strict=True):
        score["published"] = paper._asdict() if paper else None
    head = {key: getattr(result, key) for key in ("task", "version", "paper", "primary")}
    return {**head, "data_name": entry.data, "against_leader": entry.standing, **row}
