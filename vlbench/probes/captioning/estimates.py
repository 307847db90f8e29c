"""Scores of captions over seeds of a captioner: what varies over seeds, and over images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vlbench.metrics.items import join_items
from vlbench.metrics.statistics import (
    ROUNDING,
    Estimate,
    Floats,
    mean_of_trials,
    redrawn,
    student_interval,
    wilson,
)
from vlbench.metrics.text.evaluated import Value
from vlbench.results import Outcome


def joined(parts: Sequence[Outcome], artifacts: Mapping[str, Any]) -> Outcome:
    """Return the outcome of all parts; of a count that several have, the first."""
    counts: dict[str, int] = {}
    for part in reversed(parts):
        counts |= part.counts
    return Outcome(
        scores=[score for part in parts for score in part.scores],
        counts=counts,
        artifacts={name: one for name, one in artifacts.items() if one is not None},
        notes=[note for part in parts for note in part.notes],
        items=join_items([part.items for part in parts if part.items is not None]),
    )


# Sums over images of statistics [..., S] to values [...]; NaN where the sums have none.
Formula = Callable[[Floats], Floats]


class OverSeeds(NamedTuple):
    """A score: its estimate, or its value alone, and its value under each seed."""

    estimate: Estimate | Value
    draws: list[float]

    def score(self) -> dict[str, Any]:
        """Return the fields of a Score; a single seed is no draw."""
        return self.estimate._asdict() | {"draws": self.draws if len(self.draws) > 1 else []}


def share(credit: Floats) -> OverSeeds:
    """Return the mean of [seeds, N] credits in [0, 1] of images; Wilson's interval for one seed."""
    by_seed = credit.mean(1)
    alone = len(credit) == 1
    found = wilson(float(credit.sum()), credit.shape[1]) if alone else mean_of_trials(credit)
    return OverSeeds(found, by_seed.tolist())


def counted(values: ArrayLike) -> Floats:
    """Return (value, 1) for each of [..., N] values, [..., N, 2], whose sums have the mean."""
    numbers = np.asarray(values, np.float64)
    return np.stack([numbers, np.ones(numbers.shape)], -1)


def ratio(sums: Floats) -> Floats:
    """Return the first of two sums [..., 2] by the second, such as a mean; NaN by 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = sums[..., 0] / sums[..., 1]
    return np.where(sums[..., 1] > 0, found, np.nan)


def over_seeds(
    statistics: Floats, formula: Formula, *, less: Floats | None = None
) -> OverSeeds | None:
    """Return the mean over seeds of a formula of the sums over N images of [seeds, N, S].

    `less` are the statistics [N, S] of the same images of what is subtracted. Images are drawn with
    replacement 1,000 times, the same for all seeds and for `less`. With one seed, standard error
    and interval are those of the draws; with several, stderr^2 is the variance over seeds, ddof 1,
    by their number, and that of the draws, and the interval +-t stderr with the degrees of freedom
    of Welch (1947) and Satterthwaite (1946). None where a seed's sums have no value. Raises
    ValueError for fewer than two images and for statistics that are not finite.
    """
    seeds, n, width = statistics.shape
    parts = [*statistics, *([] if less is None else [less])]
    table = np.concatenate(parts, 1)
    if n < 2 or not np.isfinite(table).all():
        raise ValueError(f"statistics of {n} images; wanted two or more, all finite")

    def values(sums: Floats) -> Floats:
        """Return the value of each seed, [seeds, ...], of sums [..., parts * S]."""
        found = formula(np.moveaxis(sums.reshape(*sums.shape[:-1], len(parts), width), -2, 0))
        return found[:seeds] - (0.0 if less is None else found[seeds])

    by_seed = values(table.sum(0))
    if np.isnan(by_seed).any():
        return None
    drawn = values(redrawn(table, 0)).mean(0)
    return OverSeeds(_estimate(by_seed, drawn[~np.isnan(drawn)], n), by_seed.tolist())


def value_alone(statistics: Floats, *, less: Floats | None = None) -> OverSeeds:
    """Return the mean over seeds of a number that all images share, [seeds, N, 1]."""
    by_seed = statistics[:, 0, 0] - (0.0 if less is None else less[0, 0])
    return OverSeeds(Value(float(by_seed.mean())), by_seed.tolist())


def not_negative(found: OverSeeds) -> OverSeeds:
    """Return the same with an interval that is cut at 0, below which the score cannot be."""
    if not isinstance(found.estimate, Estimate):
        return found
    low, high = found.estimate.ci95
    return found._replace(estimate=found.estimate._replace(ci95=(max(low, 0.0), high)))


def as_fraction(found: OverSeeds, n: int) -> OverSeeds:
    """Return the same cut to [0, 1], with Wilson's interval of n images where nothing varies."""
    assert isinstance(found.estimate, Estimate)
    value, stderr, (low, high) = found.estimate
    if stderr < ROUNDING:
        return found._replace(estimate=wilson(value * n, n))
    return found._replace(estimate=Estimate(value, stderr, (max(low, 0.0), min(high, 1.0))))


def _estimate(by_seed: Floats, drawn: Floats, images: int) -> Estimate:
    value, seeds = float(by_seed.mean()), len(by_seed)
    if seeds == 1:
        low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
        return Estimate(value, float(drawn.std(ddof=1)), (low, high))
    parts = [float(by_seed.var(ddof=1)) / seeds, float(drawn.var(ddof=1))]
    stderr = math.sqrt(sum(parts))
    if stderr < ROUNDING:
        return Estimate(value, stderr, (value, value))
    return Estimate(value, stderr, student_interval(value, parts, (seeds, images)))
