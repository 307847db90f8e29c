"""Tables of boards on a terminal, and those of many boards, kept from one time to the next."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import vlbench
from vlbench.boards import Board
from vlbench.catalog.specs import TaskSpec
from vlbench.digests import bytes_digest, digest
from vlbench.errors import OutputError, UnknownNameError
from vlbench.files import MOST_BOARD, default_cache, read_text, write_whole
from vlbench.leaderboard.comparison.leaders import Leaders, comparisons_file, outdated, read_leaders
from vlbench.leaderboard.rows import ties_mark
from vlbench.leaderboard.table import Entry, Table, cells, key_of, other_scores, tables_of
from vlbench.leaderboard.tables import number, spaced
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
        found = [own.get(key_of(score)) for score in others]
        told = [number(score.value, score.unit) if score else "" for score in found]
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


# Where the code is that makes tables of boards.
FOLDERS = ("", "reading/", "leaderboard/**/")


class Brief(NamedTuple):
    """The tables of the best rows of a board, and whether its comparisons are of another state."""

    tables: Sequence[Texts]
    is_outdated: bool


def brief(
    output: Path, file: Path, spec: TaskSpec | None, read: Callable[[Path], Board | None]
) -> Brief:
    """Return the tables of a board's best rows, from the cache where they are known.

    They are kept under the digest of all that they are made from: the bytes of the board and of its
    comparisons, what the task's file says was published, and vlbench's own code.
    """
    compared = comparisons_file(output, file.stem)
    parts = [bytes_digest(one) if one.is_file() else "" for one in (file, compared)]
    key = digest([_code(), *parts, spec.reference if spec else []])
    with suppress(UnknownNameError, OSError, ValueError, TypeError):
        tables, is_outdated = json.loads(read_text(_kept(key), MOST_BOARD))
        return Brief([Texts(*table) for table in tables], is_outdated)
    board = read(file)
    assert board
    leaders = read_leaders(output, file.stem)
    found = Brief(board_tables(board, leaders, spec, MOST_ROWS), outdated(output, file.stem))
    with suppress(UnknownNameError, OutputError):
        write_whole(_kept(key), json.dumps(found).encode())
    return found


def _kept(key: str) -> Path:
    return default_cache() / "shown" / f"{key.removeprefix('sha256:')}.json"


@cache
def _code() -> str:
    """Return the digest of all files of vlbench that can change what is shown."""
    package = Path(vlbench.__file__).parent
    files = [file for folder in FOLDERS for file in sorted(package.glob(f"{folder}*.py"))]
    return digest([bytes_digest(file) for file in files])
