"""`vlbench leaderboard show`: print boards as tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from vlbench.catalog.catalog import load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import add_output
from vlbench.leaderboard.leaders import old_comparisons, read_leaders
from vlbench.leaderboard.rows import named_boards, named_files
from vlbench.leaderboard.terminal import Texts, board_tables, brief
from vlbench.leaderboard.texts import plain_table


def add_options(show: argparse.ArgumentParser) -> None:
    """Add the boards."""
    show.add_argument("tasks", nargs="*", metavar="TASK", help="default: every board")
    add_output(show)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the tables of the boards that are named, and whose comparisons are old.

    Without names, the best rows of every board.
    """
    output, specs = arguments.output, load_catalog(arguments.include_path).tasks
    if arguments.tasks:
        boards = named_boards(output, arguments.tasks)
        names = [board.task for board in boards]
        told: list[Sequence[Texts]] = [
            board_tables(board, read_leaders(output, board.task), specs.get(board.task))
            for board in boards
        ]
    else:
        files = named_files(output, [])
        briefs = {file.stem: brief(output, file, specs.get(file.stem)) for file in files}
        names = [name for name, one in briefs.items() if one.is_outdated]
        told = [one.tables for one in briefs.values()]
    tables = [plain_table(**table._asdict()) for tables in told for table in tables]
    return Answer(tables, old_comparisons(output, names))
