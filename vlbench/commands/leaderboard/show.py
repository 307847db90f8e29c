"""`vlbench leaderboard show`: boards as tables."""

from __future__ import annotations

import argparse

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.answer import Answer
from vlbench.leaderboard.comparison.leaders import old_comparisons, read_leaders, standings
from vlbench.leaderboard.named import named_boards
from vlbench.leaderboard.tables import board_tables


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the tables of the boards that are named, or of all, and whose comparisons are old."""
    output, boards = arguments.output, named_boards(arguments.output, arguments.tasks)
    tasks = load_catalog(arguments.include_path).tasks
    tables = [
        table
        for board in boards
        for table in board_tables(
            board, tasks.get(board.task), standings(read_leaders(output, board.task))
        )
    ]
    return Answer(tables, old_comparisons(output, [board.task for board in boards]))
