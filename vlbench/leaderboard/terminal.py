"""Tables of boards on a terminal, and those of many boards, kept from one time to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.boards import Board, board_digest, read_board
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import spaced
from vlbench.leaderboard.kept import kept
from vlbench.leaderboard.leaders import Leaders, comparisons_file, read_comparisons
from vlbench.leaderboard.rows import ties_mark
from vlbench.leaderboard.table import Entry, Table, cells, key_of, other_scores, tables_of
from vlbench.leaderboard.texts import number
from vlbench.results import Result


class Texts(NamedTuple):
    """A table as the arguments of `plain_table`."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str
    optional: Sequence[str] = ()
    numbers: bool = False


def board_tables(
    board: Board,
    leaders: Mapping[str, Leaders],
    spec: TaskSpec | None = None,
    most: int | None = None,
) -> list[Texts]:
    """Return a table for each set of comparable rows, and one for the rows without scores.

    Of each set, the `most` best rows are shown, or all. The rest is that of `tables_of`.
    """
    tables = [score_table(table, most) for table in tables_of(board, leaders, spec)]
    rest = [row for row in board.results if row.status != "ok"]
    title = f"{board.task} (version {board.version})"
    return [*tables, *([reason_table(title, rest)] if rest else [])]


def score_table(table: Table, most: int | None = None) -> Texts:
    """Return a table of rows, with the other metrics under the primary score's conditions.

    Only the `most` best are shown where there are more, and the title says so.
    """
    shown = table._replace(entries=table.entries[:most])
    title, count = table.title, len(table.entries)
    if most and most < count:
        title = f"{title}: the best {most} of {count}; name the board to see all"
    heads, at = shown.heads, dict(table.primary.get("at", {}))
    others = [score for score in other_scores(shown) if dict(score.at) == at]
    columns = ["model", table.name, *heads, *(spaced(score.metric) for score in others)]
    rows = []
    for entry in shown.entries:
        beside, own = cells(entry), {key_of(score): score for score in entry.row.scores}
        matches = [own.get(key_of(score)) for score in others]
        told = [number(score.value, score.unit) if score else "" for score in matches]
        rows.append([entry.row.model, _value(entry), *(beside[head] for head in heads), *told])
    rows = [[cell or "-" for cell in row] for row in rows]
    return Texts(columns, rows, title, columns[2:], numbers=True)


def reason_table(title: str, rows: Sequence[Result]) -> Texts:
    """Return the results that have no scores, and the reason for each."""
    cells = [(row.model, row.status, row.reason) for row in rows]
    return Texts(["model", "status", "why"], cells, f"{title}: without scores")


def _value(entry: Entry) -> str:
    score, row = entry.primary, entry.row
    if score is None:
        return ""
    partial = " (partial)" if row.is_partial else ""
    return number(score.value, score.unit) + ties_mark(row) + partial


# Rows of a table where all boards are shown; a board that is named has all of its rows.
MOST_ROWS = 20


class Brief(NamedTuple):
    """The tables of the best rows of a board, and whether its comparisons are of another state."""

    tables: Sequence[Texts]
    is_outdated: bool


def brief(output: Path, file: Path, spec: TaskSpec | None, board: Board | None = None) -> Brief:
    """Return the tables of a board's best rows; `board` is the file's where it is read already.

    They depend on the bytes of the board and of its comparisons, and on what the task's file says
    was published.
    """
    compared = comparisons_file(output, file.stem)
    states = [board_digest(one) for one in (file, compared)]

    def make() -> bytes:
        current = board or read_board(file)
        assert current
        leaders, is_outdated = read_comparisons(output, file.stem)
        return json.dumps([board_tables(current, leaders, spec, MOST_ROWS), is_outdated]).encode()

    tables, is_outdated = json.loads(kept(["brief", *states, spec.reference if spec else []], make))
    return Brief([Texts(*table) for table in tables], is_outdated)
