"""Bars of scores, drawn by classes: a strict policy allows no `style` attributes.

A class such as `v101` puts the end of a bar at 50.5 % of the scale. `l` and `h` are the ends of the
interval, `k` is chance, `f` the highest floor and `z` the zero of the scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vlbench.leaderboard.page.names import figure_of
from vlbench.leaderboard.tables import hardest_floor, spaced
from vlbench.results import Score

# The steps of a scale: half a percent each.
STEPS = 200


class Scale(NamedTuple):
    """The numbers at the two ends of a table's bars."""

    low: float
    high: float

    def step(self, value: float) -> int:
        """Return the step that is nearest to a number, 0..STEPS."""
        part = (value - self.low) / (self.high - self.low)
        return round(STEPS * min(max(part, 0.0), 1.0))


def scale_of(scores: Sequence[Score]) -> Scale:
    """Return the scale of scores: 0 to 1 where it holds them, else one that holds all and 0."""
    numbers = [0.0]
    for score in scores:
        numbers += [score.value, *(score.ci95 or ()), *score.floors.values()]
        numbers += [] if score.chance is None else [score.chance]
    low, high = min(numbers), max(numbers)
    if scores and scores[0].unit in {"fraction", "correlation"}:
        high = max(high, 1.0)
    return Scale(low, high if high > low else low + 1.0)


def bar(score: Score, scale: Scale) -> str:
    """Return the classes of a score and its interval."""
    ends = zip("lh", score.ci95 or (), strict=False)
    return " ".join([f"b v{scale.step(score.value)}", *(f"{c}{scale.step(x)}" for c, x in ends)])


def marks(score: Score, scale: Scale) -> str:
    """Return the classes of chance, the highest floor, and zero."""
    floor = hardest_floor(score)
    found = [("k", score.chance), ("f", floor[1] if floor else None)]
    classes = [f"{name}{scale.step(x)}" for name, x in found if x is not None]
    return " ".join([*classes, *([f"z{scale.step(0.0)}"] if scale.low < 0.0 else [])])


def floor_text(score: Score) -> str:
    """Return the highest floor and its name; empty where there is none."""
    floor = hardest_floor(score)
    return f"{figure_of(floor[1], score.unit)} {spaced(floor[0])}" if floor else ""


def rules(names: Iterable[str] = "vlhkfz") -> str:
    """Return the CSS of all these classes."""
    steps = [f"{100 * i / STEPS:g}%" for i in range(STEPS + 1)]
    return "".join(f".{c}{i}{{--{c}:{at}}}" for c in names for i, at in enumerate(steps))
