"""Boards in other formats: one module for each `--format`, with the name of the format.

A module has `text(selection) -> str`, or `files(selection)`, which yields the files of a folder and
the rows left out. A text format may also have `updated(content, selection, name)`, which returns
the new content of an existing file. Only complete ok rows of trained models are exported; the other
rows are listed with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vlbench.boards.board import Board
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import ModelSpec
from vlbench.report.leaders import leaders_of
from vlbench.report.rows import unpublished
from vlbench.report.table import (
    HEADS,
    WITHOUT_DIRECTION,
    Entry,
    ScoreTable,
    directionless,
    row_texts,
    tables_of,
)
from vlbench.report.texts import Grid, one_line
from vlbench.results import Result

# The note below a table that has a model in bold.
BOLD = "Bold: differs from every other model at 5 % (paired tests, corrected for all pairs)."
ARROWS = {True: " ↑", False: " ↓", None: ""}


class LeftOut(NamedTuple):
    """A row that is not exported, and the reason."""

    row: Result
    why: str


class File(NamedTuple):
    """One file of a format with many files: its place in the folder, and its content."""

    place: str
    content: bytes


class Selection(NamedTuple):
    """The tables of the exported rows, by task, and the rows left out.

    `output` is the folder of the boards, `models` are the models of the catalog.
    """

    tables: Mapping[str, Sequence[ScoreTable]]
    left_out: Sequence[LeftOut]
    output: Path
    models: Mapping[str, ModelSpec]

    @property
    def entries(self) -> list[Entry]:
        """All exported rows."""
        return [entry for same in self.tables.values() for table in same for entry in table.entries]


def select(
    output: Path,
    boards: Sequence[Board],
    catalog: Catalog,
    models: Sequence[str] = (),
) -> Selection:
    """Return tables of the publishable rows of boards, and the other rows.

    If `models` are given, only their rows are returned. Leaders are determined among all models.
    """
    tables: dict[str, list[ScoreTable]] = {}
    left_out = []
    for board in boards:
        rows = [row for row in board.results if not models or row.model in models]
        reasons = [LeftOut(row, unpublished(row)) for row in rows]
        good = replace(board, results=[row for row, why in reasons if not why])
        leaders, spec = leaders_of(output, board), catalog.tasks.get(board.task)
        tables.setdefault(board.task, []).extend(tables_of(good, leaders, spec))
        left_out += [reason for reason in reasons if reason.why]
    return Selection(tables, left_out, output, catalog.models)


def left_out_lines(left_out: Sequence[LeftOut]) -> list[str]:
    """Return a line for each task and reason, with the models left out for this reason."""
    models: dict[str, list[str]] = {}
    for row, why in left_out:
        models.setdefault(f"{row.task}: left out ({why})", []).append(row.model)
    return [one_line(f"{line}: {', '.join(names)}") for line, names in models.items()]


def unpublished_rows(boards: Sequence[Board], models: Sequence[str] = ()) -> list[str]:
    """Return the lines of `left_out_lines` for rows with scores that models x tasks leave out."""
    rows = [row for board in boards for row in board.results if not models or row.model in models]
    reasons = [LeftOut(row, unpublished(row)) for row in rows if row.status == "ok"]
    return left_out_lines([reason for reason in reasons if reason.why])


def grids(table: ScoreTable) -> list[Grid]:
    """Return a table to print, and a second table of its scores without a direction, if any."""
    head, rows = heads(table), [texts(entry) for entry in table.entries]
    head[1] += ARROWS[higher_is_better(table)]
    best = [i for i, entry in enumerate(table.entries) if entry.is_best]
    note = BOLD if best else ""
    printed = [Grid(table.title, head, rows, "lrrrrlll", note, table.notes, best, range(1, 6))]
    if more := directionless(table):
        head, *rows = [[cell or "-" for cell in row] for row in more]
        title = f"{table.title}: {WITHOUT_DIRECTION}"
        printed.append(Grid(title, head, rows, "llrrl", numbers=range(5)))
    return printed


def heads(table: ScoreTable) -> list[str]:
    """Return the heads of a printed table; the second is the primary score of the board."""
    return ["model", table.name, *HEADS]


def texts(entry: Entry) -> list[str]:
    """Return the cells of a printed row; a dash if a value is unknown."""
    return [one_line(cell) or "-" for cell in row_texts(entry)]


def higher_is_better(table: ScoreTable) -> bool | None:
    """Return whether higher primary scores are better; None if no row has a primary score."""
    return table.scores[0].higher_is_better if table.scores else None
