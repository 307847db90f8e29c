"""Standard errors and 95 % intervals of scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Sums over items of statistics [..., S] to values [...]; NaN where the sums have none.
Formula = Callable[[Floats], Floats]

# The least and the most that a score can be.
Bounds = tuple[float, float]

# Standard normal quantile of 97.5 %.
Z95 = 1.959963984540054

# A standard error below this is the rounding of equal numbers.
ROUNDING = 1e-9

# The same for sums that were stored as float32.
ROUNDING_OF_SUMS = 1e-7

# Draws of a bootstrap.
DRAWS = 1000


class Estimate(NamedTuple):
    """A value, as a rule a fraction in [0, 1], with its standard error and 95 % interval."""

    value: float
    stderr: float
    ci95: tuple[float, float]


def wilson(successes: float, n: int) -> Estimate:
    """Return successes / n of independent items with Wilson's score interval (1927).

    Successes need not be whole: an item tied among k candidates counts 1 / k.
    Raises ValueError where there are no items or more successes than items.
    """
    if n < 1 or not -ROUNDING <= successes <= n * (1 + ROUNDING):
        raise ValueError(f"{successes} successes of {n} items; wanted 0 <= successes <= n, n >= 1")
    value = min(max(successes / n, 0.0), 1.0)
    shrink = 1 + Z95**2 / n
    centre = (value + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(value * (1 - value) / n + Z95**2 / (4 * n**2))
    stderr = math.sqrt(value * (1 - value) / n)
    # Rounding would put the ends about 1e-18 beside 0 and 1.
    low = max(centre - half, 0.0) if value > 0 else 0.0
    high = min(centre + half, 1.0) if value < 1 else 1.0
    return Estimate(value, stderr, (low, high))


def mean_of_trials(credit: NDArray[Any]) -> Estimate:
    """Return the mean of [trials, items] credits in [0, 1], where trials share their items.

    Error and interval are those of `varying_trials`. Raises ValueError where there are no trials or
    no items.
    """
    if credit.ndim != 2 or credit.size == 0:
        raise ValueError(
            f"credit has shape {list(credit.shape)}; wanted [trials, items], not empty"
        )
    by_trial, by_item = (credit.mean(axis, dtype=np.float64) for axis in (1, 0))
    return varying_trials(float(credit.mean(dtype=np.float64)), by_trial, by_item)


def varying_trials(value: float, by_trial: Floats, by_item: Floats) -> Estimate:
    """Return a mean in [0, 1] over trials and items, given its mean of each trial and each item.

    Trials and items both vary: stderr^2 = var(by_trial) / trials + var(by_item) / items, variances
    with ddof 1. The interval is +-t stderr, cut to [0, 1]: t is the 97.5 % quantile of Student's
    distribution with the degrees of freedom of Welch (1947) and Satterthwaite (1946). One trial has
    the second part alone. Where nothing varies, or there is one item, both are Wilson's with n =
    items.
    """
    items = len(by_item)
    parts = [_variance_of_mean(by_trial), _variance_of_mean(by_item)]
    stderr = math.sqrt(sum(parts))
    if items == 1 or stderr < ROUNDING:
        return wilson(value * items, items)
    low, high = student_interval(value, parts, (len(by_trial), items))
    return Estimate(value, stderr, (max(low, 0.0), min(high, 1.0)))


def student_interval(
    value: float, parts: Sequence[float], counts: Sequence[int]
) -> tuple[float, float]:
    """Return the 95 % interval of a mean whose variance is a sum of parts, of so many values each.

    It is +-t sqrt(sum(parts)), where t is the 97.5 % quantile of Student's distribution with the
    degrees of freedom of Welch (1947) and Satterthwaite (1946). A part that does not vary has no
    say; one of the parts must vary.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - planning a run must not wait for it

    terms = zip(parts, counts, strict=True)
    freedom = sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in terms if part)
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(sum(parts))
    return value - half, value + half


def clustered_fractions(totals: NDArray[Any], sizes: NDArray[Any]) -> list[Estimate]:
    """Return K means over items in clusters: sum of [clusters, K] totals / sum of sizes.

    Clusters are drawn with replacement 1,000 times, the same draws for all K. The standard error is
    the draws' standard deviation (ddof 1), the interval their 2.5 and 97.5 percentiles. Where all
    draws agree, both are Wilson's with n = clusters. Clusters of size 0 are left out.
    Raises ValueError where no cluster has an item.
    """
    filled = sizes > 0
    totals, sizes = totals[filled].astype(np.float64), sizes[filled].astype(np.float64)
    n = len(sizes)
    if n == 0:
        raise ValueError("no cluster has an item")
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=DRAWS)
    weights = drawn.astype(np.float64)
    means = (weights @ totals) / (weights @ sizes)[:, None]
    values = totals.sum(0) / sizes.sum()
    errors = means.std(0, ddof=1)
    low, high = np.percentile(means, (2.5, 97.5), axis=0)
    return [
        wilson(value * n, n) if error < ROUNDING_OF_SUMS else Estimate(value, error, (bottom, top))
        for value, error, bottom, top in zip(
            *(column.tolist() for column in (values, errors, low, high)), strict=True
        )
    ]


def clustered_fraction(hits: NDArray[Any], counts: NDArray[Any]) -> Estimate:
    """Return sum(hits) / sum(counts) over [N] clusters, such as images."""
    return clustered_fractions(hits[:, None], counts)[0]


def clustered_ratio(parts: NDArray[Any], wholes: NDArray[Any]) -> Estimate:
    """Return sum(parts) / sum(wholes) over [N] clusters, redrawn 1,000 times.

    The interval runs from the 2.5 % to the 97.5 % quantile; draws whose wholes sum to 0 are left
    out. For a paired difference of two fractions, parts are the differences of their hits. Raises
    ValueError where the wholes sum to 0.
    """
    if not len(wholes) or wholes.sum() <= 0:
        raise ValueError(f"no ratio: the counts of {len(wholes)} clusters sum to 0")
    return estimate_of_sums(np.stack([parts, wholes], 1), ratio)


def ratio(sums: Floats) -> Floats:
    """Return the first of two sums [..., 2] by the second, such as a mean; NaN by 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = sums[..., 0] / sums[..., 1]
    return np.where(sums[..., 1] > 0, quotient, np.nan)


def estimate_of_sums(statistics: Floats, formula: Formula) -> Estimate:
    """Return a formula of the sums over N clusters of [N, S] statistics.

    Clusters are drawn with replacement 1,000 times. The standard error is the draws' standard
    deviation (ddof 1), the interval their 2.5 and 97.5 percentiles; draws without a value (NaN) are
    left out. Raises ValueError for fewer than two clusters, and for statistics that are not finite.
    """
    if len(statistics) < 2 or not np.isfinite(statistics).all():
        raise ValueError(f"statistics of {len(statistics)} items; wanted two or more, all finite")
    drawn = formula(redrawn(statistics, 0))
    drawn = drawn[~np.isnan(drawn)]
    low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    return Estimate(float(formula(statistics.sum(0))), float(drawn.std(ddof=1)), (low, high))


def add_seeds(
    estimate: Estimate, by_seed: Sequence[float], items: int, bounds: Bounds = (-math.inf, math.inf)
) -> Estimate:
    """Return an estimate of so many items, the mean of several seeds, with the error of seeds.

    stderr^2 is the variance over seeds, ddof 1, by their number, and that of the estimate; the
    interval is `student_interval`, cut to the bounds. An estimate of one seed, and of seeds that
    agree, stays as it is.
    """
    parts = [_variance_of_mean(np.asarray(by_seed)), estimate.stderr**2]
    if parts[0] < ROUNDING**2:
        return estimate
    low, high = student_interval(estimate.value, parts, (len(by_seed), items))
    ends = (max(low, bounds[0]), min(high, bounds[1]))
    return Estimate(estimate.value, math.sqrt(sum(parts)), ends)


def _variance_of_mean(values: Floats) -> float:
    """Return var / n, ddof 1; 0 for a single value, which cannot vary."""
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


# Numbers that are drawn at once, so that memory does not grow with the draws.
AT_ONCE = 1 << 18

# Draws of as many clusters are kept for the next comparison, as bytes: 64 MB. Those of few are
# kept as the numbers that are multiplied: 32 MB.
MOST_KEPT, FEW = 1 << 16, 1 << 12


def redrawn(sums: Floats, seed: int) -> Floats:
    """Return the totals [1,000, K] of [C, K] clusters that are drawn with replacement."""
    n = len(sums)
    draws = _kept_draws(n, seed) if n <= MOST_KEPT else _draw_clusters(n, seed)
    return np.concatenate([times.astype(np.float64, copy=False) @ sums for times in draws])


@lru_cache(maxsize=2)
def _kept_draws(clusters: int, seed: int) -> list[NDArray[Any]]:
    """Return what `_draw_clusters` yields: a board's models are compared over the same clusters."""
    return list(_draw_clusters(clusters, seed))


def _draw_clusters(clusters: int, seed: int) -> Iterator[NDArray[Any]]:
    """Yield how often each cluster is in each of some of 1,000 draws."""
    # Hundreds of times is a cluster in no draw, unless there are hundreds of billions.
    kind = np.float64 if clusters <= FEW else np.uint8
    rng = np.random.default_rng(seed)
    for count in portions(DRAWS, clusters):
        drawn = rng.integers(clusters, size=(count, clusters))
        drawn += clusters * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * clusters)
        yield times.reshape(count, clusters).astype(kind)


def portions(draws: int, clusters: int) -> list[int]:
    """Return how many draws to make at a time, so that memory does not grow with the clusters."""
    most = max(1, AT_ONCE // clusters)
    return [min(most, draws - done) for done in range(0, draws, most)]
