"""`vlbench leaderboard show`: boards as tables."""

from __future__ import annotations

import argparse

from vlbench.boards import read_board
from vlbench.commands.answer import Answer
from vlbench.errors import UnknownNameError
from vlbench.leaderboard.tables import board_tables


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the tables of the boards that are named, or of all."""
    files = [*arguments.output.glob("*.json"), *arguments.output.glob("summaries/*.json")]
    there = {file.stem: file for file in sorted(files)}
    absent = [name for name in arguments.tasks if name not in there]
    if absent or not there:
        raise UnknownNameError(f"no board {', '.join(absent) or 'at all'} in {arguments.output}")
    boards = [read_board(there[name]) for name in arguments.tasks or there]
    return Answer([table for board in boards if board for table in board_tables(board)])
