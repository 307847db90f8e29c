"""Boards and results as tables for a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from textwrap import TextWrapper
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from vlbench.boards import Board
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import printed, spaced
from vlbench.leaderboard.rows import (
    Published,
    comparable_sets,
    publishable,
    published,
    ranked,
    ties_mark,
)
from vlbench.results import At, Result, Score, matching

# The style of the header of a column that may be left out; it looks like any other.
OPTIONAL = "optional"

# What stays on one line, from the most to the least: an interval, a number with its unit, a word.
NUMBER = r"[-+]?[\d.,]+ (?:%|points)|p <?[\d.]+|\S+"
WHOLE = [re.compile(rf"[-+\d.e]+ to [-+\d.e]+|{NUMBER}"), re.compile(NUMBER), re.compile(r"\S+")]

# Of cells that stand below the first of their row.
INDENT = "    "


def fitted(table: Table, width: int) -> Table:
    """Return a table no wider than a terminal, as far as its words and numbers stay whole.

    Optional columns are left out, the last first, and counted below the table. Where the words are
    still too long, the cells of a row stand below each other.
    """
    columns = list(table.columns)
    optional = [
        one for one in columns if isinstance(one.header, Text) and one.header.style == OPTIONAL
    ]
    left_out = 0
    while _overhead(columns) + sum(map(_narrowest, columns)) > width and optional:
        columns.remove(optional.pop())
        left_out += 1
    widened = _widened(columns, width - _overhead(columns))
    shown = copy(table)
    shown.columns = widened or [_stacked(columns, width - _overhead(columns[:1]))]
    if left_out:
        many = "1 more column" if left_out == 1 else f"{left_out} more columns"
        shown.caption = Text(f"{many} in a wider terminal or a file\n", "table.caption")
        shown.caption_justify = "left"
    return shown


def _overhead(columns: Sequence[Column]) -> int:
    """Return what a table needs beside its cells: two blanks a column, and one before the first."""
    return 2 * len(columns) + 1


def _widened(columns: Sequence[Column], room: int) -> list[Column]:
    """Return columns with the widths that share the room, the narrow ones as wide as their text.

    There are none where a word is too long.
    """
    narrowest = ([_narrowest(column, pattern) for column in columns] for pattern in WHOLE)
    widths = next((widths for widths in narrowest if sum(widths) <= room), None)
    if widths is None:
        return []
    wanted = [_widest(column) for column in columns]
    for i in sorted(range(len(columns)), key=lambda i: wanted[i]):
        widths[i] = min(wanted[i], widths[i] + room - sum(widths))
    return [replace(one, width=width) for one, width in zip(columns, widths, strict=True)]


def _stacked(columns: Sequence[Column], room: int) -> Column:
    """Return one column in place of several, with the cells of a row below each other."""
    first, *rest = columns
    heads = [f"{one.header}: " if len(rest) > 1 else "" for one in rest]
    wrapper = TextWrapper(room, INDENT, INDENT, break_long_words=False, break_on_hyphens=False)
    cells: list[RenderableType] = []
    for name, *others in zip(first.cells, *(one.cells for one in rest), strict=True):
        given = [f"{head}{cell}" for head, cell in zip(heads, others, strict=True) if str(cell)]
        cells.append(Text("\n".join([str(name), *map(wrapper.fill, given)])))
    return replace(first, no_wrap=False, _cells=cells)


def _texts(column: Column) -> list[str]:
    return [str(cell) for cell in (column.header, *column.cells)]


def _widest(column: Column) -> int:
    return max(cell_len(line) for text in _texts(column) for line in text.split("\n"))


def _narrowest(column: Column, whole: re.Pattern[str] = WHOLE[0]) -> int:
    """Return the width at which nothing in a column is broken that should stay whole."""
    if column.no_wrap:
        return _widest(column)
    return max((cell_len(one) for text in _texts(column) for one in whole.findall(text)), default=0)


def one_line(text: str) -> str:
    """Return a text on one line, control characters spelled out."""
    return printed(text).replace("\r\n", " ").replace("\n", " ")


Primary = Mapping[str, Any]


def board_tables(
    board: Board,
    spec: TaskSpec | None = None,
    leading: Mapping[str, Mapping[str, str]] | None = None,
    most: int | None = None,
) -> list[Table]:
    """Return a table for each set of comparable rows, and one for the rows without scores.

    `spec` is the task, if it is known: its published values stand beside ours. `leading` says of
    each set how its models stand to the best. Of each set, the `most` best rows are shown, or all.
    """
    sets = comparable_sets(board.results)
    title = f"{board.task} (version {board.version})"
    tables = []
    for i, (key, rows) in enumerate(sets.items()):
        part = f", not comparable with the others: set {i + 1}" if len(sets) > 1 else ""
        tables.append(
            score_table(title + part, board.primary, rows, spec, (leading or {}).get(key), most)
        )
    rest = [row for row in board.results if row.status != "ok"]
    return [*tables, *([reason_table(title, rest)] if rest else [])]


def score_table(
    title: str,
    primary: Primary,
    results: Sequence[Result],
    spec: TaskSpec | None = None,
    leading: Mapping[str, str] | None = None,
    most: int | None = None,
) -> Table:
    """Return results by primary score, best first, and those without one at the end.

    Only the `most` best are shown where there are more, and the title says so.

    The columns: the score, its interval, chance, the highest floor, n, how the model stands to the
    best where `leading` says so, the published value and how far ours lies from it where the task
    has one, and the other metrics under the conditions of the primary score.
    """
    found = ranked(results, primary)[:most]
    scored = [(result, score) for result, score in found if score]
    counted = publishable(results) if spec else {}
    if len(found) < len(results):
        title = f"{title}: the best {len(found)} of {len(results)}; name the board to see all"
        results = [result for result, _ in found]
    papers = [
        published(spec, result.model, score) if spec and result.model in counted else None
        for result, score in scored
    ]
    is_published = any(papers)
    name = score_name(primary["metric"], primary["at"])
    columns = ["model", name, "95 % interval", "chance", "highest floor", "n"]
    columns += ["vs leader"] if leading else []
    columns += ["published", "difference"] if is_published else []
    variants = _variants(primary, results)
    columns += [spaced(variant) for variant in variants]
    table = _table(title, columns, optional=columns[2:])
    for (result, score), paper in zip(scored, papers, strict=True):
        cells = (
            result.model,
            number(score.value, score.unit) + ties_mark(result),
            interval(score),
            number(score.chance, score.unit),
            floor_text(score),
            str(score.n) + (" (partial)" if result.is_partial else ""),
            *([leading.get(result.model, "-")] if leading else []),
            *(beside(paper, score.unit) if is_published else ()),
            *(_variant(result, primary, name) for name in variants),
        )
        _add_row(table, cells)
    for result, missing in found:
        if missing is None:
            _add_row(table, (result.model, "-"))
    return table


def reason_table(title: str, results: Sequence[Result]) -> Table:
    """Return the results that have no scores, and the reason for each."""
    table = _table(f"{title}: without scores", ["model", "status", "why"], numbers=False)
    for result in results:
        _add_row(table, (result.model, result.status, result.reason))
    return table


def plain_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    optional: Sequence[str] = (),
) -> Table:
    """Return a table of texts; a narrow terminal may lack its `optional` columns."""
    table = _table(title, columns, numbers=False, optional=optional)
    for row in rows:
        _add_row(table, row)
    return table


def number(value: float | None, unit: str = "fraction") -> str:
    """Return a number for a table: a fraction as a percentage with one decimal."""
    if value is None:
        return "-"
    return f"{100.0 * value:.1f} %" if unit == "fraction" else f"{value:.4g}"


def probability(p: float) -> str:
    """Return a p-value for a table."""
    return "p <0.001" if p < 0.001 else f"p {p:.3f}"


def lead(difference: float, unit: str = "fraction") -> str:
    """Return a difference of two numbers for a table: of fractions, in percentage points."""
    return f"{100.0 * difference:+.1f} points" if unit == "fraction" else f"{difference:+.4g}"


def beside(paper: Published | None, unit: str) -> list[str]:
    """Return a published value, and how far ours lies from it, as two cells."""
    if paper is None:
        return ["-", "-"]
    errors = "" if paper.in_stderr is None else f" ({paper.in_stderr:+.1f} standard errors)"
    return [number(paper.value, unit), f"{lead(paper.difference, unit)}{errors}"]


def condition(value: str | float) -> str:
    """Return the value of a condition: a number with four significant digits.

    One that needs more of them is told in steps of 255, as epsilons are, where it is some of them.
    """
    if isinstance(value, str):
        return value
    digits, steps = f"{value:.4g}", round(value * 255)
    exact = 0 < steps <= 32 and steps / 255 == value
    return f"{steps}/255" if exact and float(digits) != value else digits


def hardest_floor(score: Score) -> tuple[str, float] | None:
    """Return the name and value of the floor that is hardest to beat; None without floors."""
    pick = max if score.higher_is_better else min
    return pick(score.floors.items(), key=lambda floor: floor[1], default=None)


def score_name(metric: str, at: At) -> str:
    """Return what a score is called in a table: its metric, and the conditions in brackets."""
    words = ", ".join(f"{name} {condition(value)}" for name, value in at.items())
    return f"{metric} ({words})" if words else metric


def _table(
    title: str, columns: Sequence[str], *, numbers: bool = True, optional: Sequence[str] = ()
) -> Table:
    table = Table(
        title=Text(printed(title), "table.title") if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for i, column in enumerate(columns):
        table.add_column(
            Text(printed(column), OPTIONAL if column in optional else ""),
            justify="right" if numbers and i else "left",
            overflow="fold",
            no_wrap=not i,
        )
    return table


def _add_row(table: Table, cells: Sequence[str]) -> None:
    """Add texts as they are: the brackets in a model's name are no markup of rich."""
    table.add_row(*(Text(printed(cell)) for cell in cells))


def _variants(primary: Primary, results: Sequence[Result]) -> list[str]:
    """Return the other metrics under the primary score's conditions."""
    names = [s.metric for result in results for s in result.scores if s.at == primary["at"]]
    return [name for name in dict.fromkeys(names) if name != primary["metric"]]


def _variant(result: Result, primary: Primary, metric: str) -> str:
    same = matching(result.scores, {"metric": metric, "at": primary["at"]})
    return number(same[0].value, same[0].unit) if same else "-"


def interval(score: Score) -> str:
    """Return the 95 % interval of a score for a table, both ends with the same decimals.

    Fractions are percentages with one; of others, the larger end has four significant digits.
    """
    if not score.ci95:
        return "-"
    if score.unit == "fraction":
        low, high = (100.0 * end for end in score.ci95)
        return f"{low:z.1f} to {high:z.1f}"
    low, high = score.ci95
    exponent = int(f"{max(abs(low), abs(high)):e}".partition("e")[2])
    form = f"z.{max(0, 3 - exponent)}f" if -5 < exponent < 10 else ".3e"
    return f"{low:{form}} to {high:{form}}"


def floor_text(score: Score) -> str:
    """Return the floor that is hardest to beat, and its name, for a table."""
    floor = hardest_floor(score)
    return f"{number(floor[1], score.unit)} {spaced(floor[0])}" if floor else "-"
