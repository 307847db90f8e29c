"""`vlbench leaderboard show`: boards as tables."""

from __future__ import annotations

import argparse

from rich.table import Table

from vlbench.boards import read_board
from vlbench.commands.answer import Answer
from vlbench.errors import UnknownNameError
from vlbench.leaderboard.leaders import outdated, read_leaders, standings
from vlbench.leaderboard.tables import board_tables


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the tables of the boards that are named, or of all, and whose comparisons are old."""
    files = [*arguments.output.glob("*.json"), *arguments.output.glob("summaries/*.json")]
    there = {file.stem: file for file in sorted(files)}
    absent = [name for name in arguments.tasks if name not in there]
    if absent or not there:
        raise UnknownNameError(f"no board {', '.join(absent) or 'at all'} in {arguments.output}")
    tables: list[Table] = []
    for name in arguments.tasks or there:
        board = read_board(there[name])
        assert board
        tables += board_tables(board, standings(read_leaders(arguments.output, name)))
    old = [name for name in arguments.tasks or there if outdated(arguments.output, name)]
    return Answer(
        tables,
        [
            f"{name} has changed since it was compared with its leader; "
            "run vlbench leaderboard build"
            for name in old
        ],
    )
