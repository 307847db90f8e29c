"""Intervals of claims over the items that the rows of two scores share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from vlbench.catalog.comparisons import Comparison, Side
from vlbench.errors import DataError
from vlbench.leaderboard.artifacts import read_items
from vlbench.leaderboard.comparison.joins import Items, compare, items_of
from vlbench.results import ITEMS, Result, matching

Rows = Mapping[tuple[str, str], Result]


class Pairing(NamedTuple):
    """The 95 % interval of a difference, item by item; without one, why scores cannot be joined."""

    ci95: tuple[float, float] | None = None
    why: str = ""


def pair(comparison: Comparison, rows: Rows, output: Path) -> Pairing:
    """Compare two scores of one task under the same conditions, where both rows keep items.

    `rows` are those of a claim, by task and model.
    """
    sides = [_single(side, rows) for side in comparison.sides]
    if len(sides) < 2 or not all(sides):
        return Pairing()
    first, second = comparison.sides
    if (first.tasks, first.at) != (second.tasks, second.at):
        return Pairing()
    try:
        a, b = (_items(side, rows, output) for side in comparison.sides)
        return Pairing(compare(a, b, higher_is_better=True).ci95)
    except DataError as error:
        return Pairing(why=str(error))


def _single(side: Side, rows: Rows) -> bool:
    """Return whether a side is one score, and no floor, of a row that keeps items."""
    if len(side.tasks) * len(side.models) * len(side.at) > 1 or side.floor:
        return False
    row = rows.get((side.tasks[0], side.models[0]))
    return row is not None and ITEMS in row.artifacts


def _items(side: Side, rows: Rows, output: Path) -> Items:
    row = rows[side.tasks[0], side.models[0]]
    (score,) = matching(row.scores, {"metric": side.metric, "at": side.at[0]})
    return items_of(row.model, read_items(output, row), score)
