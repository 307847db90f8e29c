"""Texts and tables for a terminal, and the format of numbers everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import replace
from textwrap import TextWrapper
from typing import NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from vlbench.errors import printed
from vlbench.results import At, Score

# The style of the header of a column that may be left out; it looks like any other.
OPTIONAL = "optional"

# What stays on one line, from most to least: an interval, a number with its unit, a word.
NUMBER = r"[-+]?[\d.,]+ (?:%|points)|p <?[\d.]+|\S+"
WHOLE = [re.compile(rf"[-+\d.e]+ to [-+\d.e]+|{NUMBER}"), re.compile(NUMBER), re.compile(r"\S+")]

# The smallest width of a shortened name.
SHORTEST = 12

# Indent of cells below the first of their row.
INDENT = "    "


class Grid(NamedTuple):
    """A table of texts below its title; `head` names its columns.

    `columns` has an l or an r for each column: left- or right-aligned. `note` and the `notes` of
    rows are printed with the table. The first two cells of the `best` rows are bold. A hyphen
    before a digit is a minus sign in the columns of `numbers`.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    columns: str
    note: str = ""
    notes: Sequence[str] = ()
    best: Collection[int] = ()
    numbers: Collection[int] = ()


def fitted(table: Table, width: int) -> Table:
    """Return a table no wider than a terminal, as far as its words and numbers stay whole.

    Optional columns are left out, the last first, and counted below the table. If that is not
    enough, the names beside numbers are shortened, to at least SHORTEST, and then the cells of a
    row are printed below each other.
    """
    columns = list(table.columns)
    optional = [
        one for one in columns if isinstance(one.header, Text) and one.header.style == OPTIONAL
    ]
    left_out = 0
    while _overhead(columns) + sum(map(_narrowest, columns)) > width and optional:
        columns.remove(optional.pop())
        left_out += 1
    room = width - _overhead(columns) - sum(map(_narrowest, columns[1:]))
    if columns[1:] and columns[1].justify == "right" and SHORTEST <= room < _widest(columns[0]):
        columns[0] = _shortened(columns[0], room)
    widened = _widen(columns, width - _overhead(columns))
    result = copy(table)
    result.columns = widened or [_stack(columns, width - _overhead(columns[:1]))]
    if left_out:
        many = "1 more column" if left_out == 1 else f"{left_out} more columns"
        result.caption = Text(f"{many} in a wider terminal or a file\n", "table.caption")
        result.caption_justify = "left"
    return result


def _shortened(column: Column, width: int) -> Column:
    """Return a column whose cells are at most `width` wide, longer cells ending in an ellipsis."""
    cells: list[RenderableType] = []
    for text in map(Text, map(str, column.cells)):
        text.truncate(width, overflow="ellipsis")
        cells.append(text)
    return replace(column, _cells=cells)


def _overhead(columns: Sequence[Column]) -> int:
    """Return the width beside the cells: two blanks a column, and one before the first column."""
    return 2 * len(columns) + 1


def _widen(columns: Sequence[Column], room: int) -> list[Column]:
    """Return columns that share the room, narrow columns as wide as their text.

    The list is empty if a word is too long.
    """
    narrowest = ([_narrowest(column, pattern) for column in columns] for pattern in WHOLE)
    widths = next((widths for widths in narrowest if sum(widths) <= room), None)
    if widths is None:
        return []
    widest = [_widest(column) for column in columns]
    for i in sorted(range(len(columns)), key=lambda i: widest[i]):
        widths[i] = min(widest[i], widths[i] + room - sum(widths))
    return [replace(column, width=width) for column, width in zip(columns, widths, strict=True)]


def _stack(columns: Sequence[Column], room: int) -> Column:
    """Return one column instead of several, with the cells of a row below each other."""
    first, *rest = columns
    heads = [f"{column.header}: " if len(rest) > 1 else "" for column in rest]
    wrapper = TextWrapper(room, INDENT, INDENT, break_long_words=False, break_on_hyphens=False)
    cells: list[RenderableType] = []
    for name, *others in zip(first.cells, *(column.cells for column in rest), strict=True):
        lines = [f"{head}{cell}" for head, cell in zip(heads, others, strict=True) if str(cell)]
        cells.append(Text("\n".join([str(name), *map(wrapper.fill, lines)])))
    return replace(first, no_wrap=False, _cells=cells)


def _texts(column: Column) -> list[str]:
    return [str(cell) for cell in (column.header, *column.cells)]


def _widest(column: Column) -> int:
    return max(cell_len(line) for text in _texts(column) for line in text.split("\n"))


def _narrowest(column: Column, whole: re.Pattern[str] = WHOLE[0]) -> int:
    """Return the smallest width at which nothing that should stay whole is broken."""
    if column.no_wrap:
        return _widest(column)
    return max((cell_len(one) for text in _texts(column) for one in whole.findall(text)), default=0)


def one_line(text: str) -> str:
    """Return a text on one line, control characters spelled out."""
    return printed(text).replace("\r\n", " ").replace("\n", " ")


def plain_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    optional: Sequence[str] = (),
    *,
    numbers: bool = False,
) -> Table:
    """Return a table of literal texts: brackets in a model's name are not markup of rich.

    A narrow terminal may leave out the `optional` columns. With `numbers`, all columns except the
    first are right-aligned.
    """
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
    for row in rows:
        table.add_row(*(Text(printed(cell)) for cell in row))
    return table


def number(value: float | None, unit: str = "fraction") -> str:
    """Return a number for a table: a fraction as a percentage with one decimal.

    A correlation has three decimals, and any other number four significant digits.
    """
    if value is None:
        return "-"
    if unit == "fraction":
        return f"{100.0 * value:z.1f} %"
    return f"{value:z.3f}" if unit == "correlation" else f"{value:z.4g}"


def value(score: Score, form: Callable[[float, str], str] = number) -> str:
    """Return the value of a score for a table, and its verdict in brackets, if it has one."""
    text = form(score.value, score.unit)
    return f"{text} ({score.verdict})" if score.verdict else text


def bare_number(value: float, unit: str = "fraction") -> str:
    """Return a number for a table whose heads have the units."""
    return number(value, unit).removesuffix(" %")


def probability(p: float) -> str:
    """Return a p-value as text for a table."""
    return "p <0.001" if p < 0.001 else f"p {p:.3f}"


def lead(difference: float, unit: str = "fraction") -> str:
    """Return a difference of two numbers for a table; of fractions, in percentage points."""
    if unit == "fraction":
        return f"{100.0 * difference:+z.1f} points"
    return f"{difference:+z.3f}" if unit == "correlation" else f"{difference:+z.4g}"


def condition(value: str | float) -> str:
    """Return the value of a condition: a number with four significant digits.

    A number that needs more digits is printed in steps of 1/255, as epsilons are, if it is a
    multiple.
    """
    if isinstance(value, str):
        return value
    digits, steps = f"{value:.4g}", round(value * 255)
    exact = 0 < steps <= 32 and steps / 255 == value
    return f"{steps}/255" if exact and float(digits) != value else digits


def hardest_floor(score: Score) -> tuple[str, float] | None:
    """Return the name and value of the floor that is hardest to beat.

    A floor that is easier to beat than chance is left out; None if no floor is left.
    """
    pick = min if score.lower_is_better else max
    floors = [*score.floors.items()]
    if score.chance is not None:
        floors = [floor for floor in floors if pick(floor[1], score.chance) == floor[1]]
    return pick(floors, key=lambda floor: floor[1], default=None)


def score_name(metric: str, at: At) -> str:
    """Return the name of a score in a table: its metric, and the conditions in brackets."""
    words = ", ".join(f"{name} {condition(value)}" for name, value in at.items())
    return f"{metric} ({words})" if words else metric


def few(names: Sequence[str], most: int = 3) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
