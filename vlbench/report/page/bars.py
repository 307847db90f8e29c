"""CSS classes for score bars; the page's content-security policy forbids inline styles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vlbench.report.texts import hardest_floor
from vlbench.results import Score

# The number of steps of a scale: half a percent each.
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
    """Return a scale that contains all scores and 0, and also 1 for fractions and correlations."""
    numbers = [0.0]
    for score in scores:
        numbers += [score.value, *(score.ci95 or ()), *score.floors.values()]
        numbers += [] if score.chance is None else [score.chance]
    low, high = min(numbers), max(numbers)
    if scores and scores[0].unit in {"fraction", "correlation"}:
        high = max(high, 1.0)
    return Scale(low, high if high > low else low + 1.0)


def bar(score: Score | None, scale: Scale) -> str:
    """Return the CSS classes of a score, its interval, chance, the hardest floor, and zero.

    A score without a direction has no bar.
    """
    if score is None:
        return ""
    if score.higher_is_better is None:
        return "s"
    floor = hardest_floor(score)
    low, high = score.ci95 or (None, None)
    values = {"v": score.value, "l": low, "h": high, "k": score.chance}
    values |= {"f": floor[1] if floor else None, "z": 0.0 if scale.low < 0.0 else None}
    steps = (f"{name}{scale.step(x)}" for name, x in values.items() if x is not None)
    return " ".join(["b", *steps])


def rules(names: Iterable[str] = "vlhkfz") -> str:
    """Return the CSS of all these classes."""
    steps = [f"{100 * i / STEPS:g}%" for i in range(STEPS + 1)]
    return "".join(f".{c}{i}{{--{c}:{at}}}" for c in names for i, at in enumerate(steps))
