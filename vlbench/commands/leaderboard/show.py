"""`vlbench leaderboard show`: print boards as tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlbench.catalog.catalog import load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import add_output
from vlbench.leaderboard.comparison.leaders import (
    BEHIND,
    Leaders,
    old_comparisons,
    read_leaders,
    standing,
)
from vlbench.leaderboard.rows import named_boards
from vlbench.leaderboard.tables import board_tables, probability

# Rows of a table where all boards are shown; a board that is named has all of its rows.
MOST_ROWS = 20


def add_options(show: argparse.ArgumentParser) -> None:
    """Add the boards."""
    show.add_argument("tasks", nargs="*", metavar="TASK", help="default: every board")
    add_output(show)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the tables of the boards that are named, and whose comparisons are old.

    Without names, the best rows of every board.
    """
    output, boards = arguments.output, named_boards(arguments.output, arguments.tasks)
    tasks = load_catalog(arguments.include_path).tasks
    tables = [
        table
        for board in boards
        for table in board_tables(
            board,
            tasks.get(board.task),
            _standings(output, board.task),
            None if arguments.tasks else MOST_ROWS,
        )
    ]
    return Answer(tables, old_comparisons(output, [board.task for board in boards]))


def _standings(output: Path, task: str) -> dict[str, dict[str, str]]:
    """Return how each model compares with the leader, per `comparable`, if any was tested."""
    sets = {key: one for key, one in read_leaders(output, task).items() if one.p}
    return {
        key: {model: _describe(model, one) for model in (one.leader, *one.p, *one.untested)}
        for key, one in sets.items()
    }


def _describe(model: str, leaders: Leaders) -> str:
    word = standing(model, leaders)
    return f"{word}, {probability(leaders.p[model])}" if word == BEHIND else word
