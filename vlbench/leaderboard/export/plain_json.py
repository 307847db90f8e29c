"""JSON: one document with every exported row as its board has it, and what papers give."""

from __future__ import annotations

import json
from typing import Any

from vlbench.leaderboard.export.selection import Entry, Part, Selection

SCHEMA = 1


def plain_json(selection: Selection) -> str:
    """Return the document, in ASCII, so that it is safe to print."""
    rows = [_row(part, entry) for part in selection.parts for entry in part.entries]
    return json.dumps({"schema": SCHEMA, "rows": rows}, indent=1, allow_nan=False) + "\n"


def _row(part: Part, entry: Entry) -> dict[str, Any]:
    board = part.board
    row = entry.row.row()
    for score, given in zip(row["scores"], entry.published, strict=True):
        score["published"] = given._asdict() if given else None
    return {
        "task": board.task,
        "version": board.version,
        "paper": board.paper,
        "primary": board.primary,
        "against_leader": entry.standing,
        **row,
    }
