"""`vlbench ls`: the tasks, models, probes or data sets that there are."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from vlbench.commands.answer import Answer
from vlbench.commands.listing import list_things
from vlbench.leaderboard.tables import plain_table

# What each kind of thing is listed with, besides its name.
COLUMNS = {
    "tasks": ("needs", "tags", "about"),
    "models": ("capabilities", "about"),
    "probes": ("about",),
    "data": ("about",),
}


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the listing as a table or JSON."""
    rows = list_things(arguments.kind, arguments.include_path, arguments.filter or "")
    if arguments.json:
        return Answer([json.dumps(rows, indent=1)])
    columns = COLUMNS[arguments.kind]
    cells = [[row["name"], *(_cell(row, column) for column in columns)] for row in rows]
    return Answer([plain_table(["name", *columns], cells, optional=("needs", "tags"))])


def _cell(row: Mapping[str, Any], column: str) -> str:
    value = row[column]
    if value is None:
        return "" if row.get("adapter") == "" or row.get("probe") == "" else "unknown"
    return ", ".join(value) if isinstance(value, list) else value
