"""The boards of a folder, its summaries, and the rows of a board, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlbench.boards import Board, board_file, read_board
from vlbench.errors import UnknownNameError, unknown
from vlbench.results import Result


def named_boards(output: Path, names: Sequence[str]) -> list[Board]:
    """Return the boards and summaries that are named, or all of a folder.

    Raises UnknownNameError for a name that has none, and for a folder without any.
    """
    files = [*output.glob("*.json"), *output.glob("summaries/*.json")]
    there = {file.stem: file for file in sorted(files)}
    absent = [name for name in names if name not in there]
    if absent or not there:
        raise UnknownNameError(f"no board {', '.join(absent) or 'at all'} in {output}")
    boards = [read_board(there[name]) for name in dict.fromkeys(names or there)]
    return [board for board in boards if board]


def named_row(output: Path, task: str, model: str) -> Result:
    """Return the ok row of a model. Raises UnknownNameError where there is none, or several."""
    board = read_board(board_file(output, task))
    if board is None:
        raise UnknownNameError(f"no board {task} in {output}")
    rows = [row for row in board.results if row.status == "ok" and row.model == model]
    if not rows:
        raise unknown("model with scores", model, {row.model for row in board.results})
    if len(rows) > 1:
        why = "their data or parameters differ; keep one of them in a folder of its own"
        raise UnknownNameError(f"{model} has {len(rows)} rows on {task}: {why}")
    return rows[0]
