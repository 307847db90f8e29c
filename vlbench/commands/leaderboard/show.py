"""`vlbench leaderboard show`: boards as tables."""

from __future__ import annotations

import argparse

from vlbench.boards import read_board
from vlbench.catalog.catalog import load_catalog
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
    tasks = load_catalog(arguments.include_path).tasks
    found = [board for board in boards if board]
    return Answer([t for board in found for t in board_tables(board, tasks.get(board.task))])
