"""Tables of boards on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from vlbench.boards.board import Board
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import spaced
from vlbench.report.leaders import Leaders
from vlbench.report.table import (
    ScoreTable,
    directionless,
    key_of,
    other_scores,
    row_texts,
    tables_of,
)
from vlbench.report.texts import plain_table, value
from vlbench.results import Result

# The columns that a narrow terminal keeps beside a score.
KEPT = ("95 % interval", "n", "chance")


def board_tables(
    board: Board,
    leaders: Mapping[str, Leaders],
    spec: TaskSpec | None = None,
) -> list[Table | str]:
    """Return a table for each set of comparable rows, and one for the rows without scores.

    A table is followed by a table of the scores without a direction, and by a text of the notes of
    its rows, if there are any.
    """
    tables: list[Table | str] = []
    for table in tables_of(board, leaders, spec):
        tables.append(score_table(table))
        if grid := directionless(table):
            tables.append(plain_table(grid[0], grid[1:]))
        tables += note_texts(table.notes)
    rest = [row for row in board.results if row.status != "ok"]
    title = f"{board.task} (version {board.version})"
    return [*tables, *([reason_table(title, rest)] if rest else [])]


def score_table(table: ScoreTable) -> Table:
    """Return a table of rows, with the other metrics under the primary score's conditions."""
    heads, at = table.heads, dict(table.primary.get("at", {}))
    others = [score for score in other_scores(table) if dict(score.at) == at]
    columns = ["model", table.name, *heads, *(spaced(score.metric) for score in others)]
    rows = []
    for entry in table.entries:
        scores = {key_of(score): score for score in entry.row.scores}
        matches = [scores.get(key_of(score)) for score in others]
        texts = [*row_texts(entry, heads), *(value(score) if score else "" for score in matches)]
        rows.append([text or "-" for text in texts])
    optional = [name for name in columns[2:] if name not in KEPT]
    return plain_table(columns, rows, table.title, optional, numbers=True)


def note_texts(notes: Sequence[str]) -> list[str]:
    """Return a text with a line for each note and a blank line at the end; none without notes."""
    return ["".join(f"note: {note}\n" for note in notes)] if notes else []


def reason_table(title: str, rows: Sequence[Result]) -> Table:
    """Return the results that have no scores, and the reason for each."""
    cells = [(row.model, row.status, row.reason) for row in rows]
    return plain_table(["model", "status", "why"], cells, f"{title}: without scores")
