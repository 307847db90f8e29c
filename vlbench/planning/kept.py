"""Rows that stand on a task's board, read once for all models of a plan, and the one to keep."""

from __future__ import annotations

from collections.abc import Sequence
from glob import escape
from pathlib import Path

from vlbench.boards import board_file, read_board
from vlbench.results import Result


def standing_rows(output: Path | None, task: str) -> Sequence[Result]:
    """Return the rows of a task's board; none without a board or an `output`.

    Raises SpecError for a malformed board of the task, archived ones too.
    """
    if output is None:
        return []
    archived = sorted(output.glob(f"archive/{escape(task)}.v*.json"))
    board, *_ = [read_board(file) for file in (board_file(output, task), *archived)]
    return board.results if board else []


def kept_result(rows: Sequence[Result], model: str, request: str) -> Result | None:
    """Return the ok row of a model with this request, or None; also None for an empty request."""
    mine = [row for row in rows if row.status == "ok" and row.model == model]
    return next((row for row in mine if request and row.request == request), None)
