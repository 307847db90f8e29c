"""The boards of a folder, and its summaries, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlbench.boards import Board, read_board
from vlbench.errors import UnknownNameError


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
