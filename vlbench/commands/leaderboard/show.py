"""`vlbench leaderboard show`: boards as tables."""

from __future__ import annotations

import argparse

from vlbench.commands.answer import Answer
from vlbench.leaderboard.named import named_boards
from vlbench.leaderboard.tables import board_tables


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the tables of the boards that are named, or of all."""
    boards = named_boards(arguments.output, arguments.tasks)
    return Answer([table for board in boards for table in board_tables(board)])
