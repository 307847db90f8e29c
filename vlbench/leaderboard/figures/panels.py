"""Panels of charts: the scores that are drawn together, and what they are to beat."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Point(NamedTuple):
    """A score at a number x (of shots, an epsilon, ...), with its interval or None.

    `floor` is the name and value of the floor that is hardest to beat.
    """

    x: float
    y: float
    interval: tuple[float, float] | None
    chance: float | None = None
    floor: tuple[str, float] | None = None


# Chance or a floor of a point.
Level = Callable[[Point], float | None]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Scores of models along the number named `x`; one score per model where `x` is empty."""

    title: str
    x: str
    y: str
    models: Mapping[str, Sequence[Point]]
    unit: str = "fraction"
    higher_is_better: bool = True


def ranked(panels: Sequence[Panel]) -> list[str]:
    """Return the models of all panels, the best of the first panel last.

    Equal ones, and those that a panel lacks, are ranked by the next panel; at last by name.
    """

    def key(name: str) -> list[float]:
        found = [(panel, panel.models.get(name)) for panel in panels]
        return [_rank(panel, points[0].y) if points else -math.inf for panel, points in found]

    names = {name for panel in panels for name in panel.models}
    return sorted(sorted(names, reverse=True), key=key)


def _rank(panel: Panel, value: float) -> float:
    return value if panel.higher_is_better else -value


def levels(panel: Panel, level: Level) -> dict[float, list[float]]:
    """Return chance or the floors of all models at each x, the hardest to beat last."""
    found: dict[float, list[float]] = {}
    for point in (point for points in panel.models.values() for point in points):
        if (value := level(point)) is not None:
            found.setdefault(point.x, []).append(value)
    return {x: sorted(found[x], key=lambda value: _rank(panel, value)) for x in sorted(found)}


def chance(point: Point) -> float | None:
    """Return the chance of a point."""
    return point.chance


def floor(point: Point) -> float | None:
    """Return the value of the floor of a point."""
    return point.floor[1] if point.floor else None
