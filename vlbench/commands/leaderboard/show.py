"""`vlbench leaderboard show`: print boards as tables."""

from __future__ import annotations

import argparse

from vlbench.catalog.catalog import load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import add_output
from vlbench.report.export import unpublished_rows
from vlbench.report.leaders import leaders_by_task
from vlbench.report.pivot import grid, mark_notes, pivots, row_notes
from vlbench.report.rows import named_boards
from vlbench.report.terminal import board_tables
from vlbench.report.texts import plain_table

# The line below models x tasks, if a row has notes.
NOTES = "vlbench leaderboard show TASK prints the notes"


def add_options(show: argparse.ArgumentParser) -> None:
    """Add the options for the boards."""
    show.add_argument(
        "tasks", nargs="*", metavar="TASK", help="default: models x tasks of all boards"
    )
    add_output(show, or_shipped=True)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the tables of the named boards.

    If no board is named, return a table of models x tasks for each data set.
    """
    output, catalog = arguments.output, load_catalog(arguments.include_path)
    boards = named_boards(output, arguments.tasks)
    leaders = leaders_by_task(output, boards)
    if arguments.tasks:
        texts = [
            text
            for board in boards
            for text in board_tables(board, leaders[board.task], catalog.tasks.get(board.task))
        ]
        return Answer(texts)
    pivoted = pivots(boards, catalog, leaders)
    problems = [] if pivoted else [f"no model has scores in {output}"]
    tables = [
        plain_table(part.head, part.rows, part.title, part.head[1:], numbers=True)
        for part in map(grid, pivoted)
    ]
    notes = [mark_notes(pivoted), NOTES * bool(row_notes(pivoted))]
    return Answer([*tables, *filter(None, notes)], [*problems, *unpublished_rows(boards)])
