"""The best of several candidates, such as layers, if only the scored items can choose it.

Each half of the items is scored by the candidate that is best on the other half. The interval
covers the choice. A jackknife would miss it, because leaving out one of many items hardly ever
changes the choice.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.metrics.intervals import (
    Estimate,
    Floats,
    crossed_variance,
    fraction,
    variance_of_mean,
    variance_of_ratios,
)

# Bootstrap samples of an interval, and the number of samples that a score keeps for paired tests.
SAMPLES, KEPT = 1_000, 100

# Weights drawn at once.
AT_ONCE = 1 << 22


class BestOfHalves(NamedTuple):
    """The candidate of each half, which items are in the `first` half, and their credit [T, N].

    `samples` are values on bootstrap samples; models with the same items have the same samples.
    """

    chosen: tuple[int, int]
    first: NDArray[np.bool_]
    credit: Floats
    estimate: Estimate
    samples: Floats


def best_of_halves(credit: Floats, groups: NDArray[np.intp], *, seed: int = 0) -> BestOfHalves:
    """Return the mean of [K, T, N] credits in [0, 1], each half at the best of K on the other half.

    T are trials; NaN is left out. Items with the same number in `groups` [N], from 0, belong
    together: a group is in one half, and its copies in a bootstrap sample are in the same half.
    Each bootstrap sample repeats the choice. The variance of trials beyond the variance of items is
    added, as in `crossed_variance`. Raises ValueError for fewer than two groups.

    Example:
        >>> credit = np.array([[[1, 1, 1, 0]], [[0, 0, 0, 0]]])  # the first is better on any half
        >>> best = best_of_halves(credit, np.arange(4))
        >>> best.chosen, best.estimate.value
        ((0, 0), 0.75)
    """
    if groups.max() < 1:
        raise ValueError("one group of items has no halves")
    rng, sizes = np.random.default_rng(seed), np.bincount(groups)
    half = rng.permutation(len(sizes)) < len(sizes) // 2
    first = half[groups]
    by_other = [int(_means(credit[..., items]).argmax()) for items in (~first, first)]
    earned = np.where(first, credit[by_other[0]], credit[by_other[1]])
    value = float(_means(earned))
    parts = _by_group(earned - value, groups) * len(sizes) / (~np.isnan(earned)).sum(1)[:, None]
    among, freedom = _beyond_items(parts)
    samples = _bootstrap(credit, groups, half, rng)
    chosen = float(samples.var(ddof=1))
    effects = parts.mean(1)
    if among > 0:
        drawn = rng.standard_normal((len(samples), len(effects))) @ effects
        samples = samples + drawn * math.sqrt(among / float((effects**2).sum()))
    _, by_groups = variance_of_ratios(np.zeros((len(sizes), 1)), sizes)
    terms = chosen**2 / by_groups + among**2 / freedom
    variance = chosen + among
    estimate = fraction(value, variance, variance**2 / terms if terms else math.inf, len(sizes))
    return BestOfHalves((by_other[0], by_other[1]), first, earned, estimate, samples)


def _means(credit: Floats) -> Any:
    """Return the mean over trials of the means [..., T] over items."""
    return np.nanmean(credit, -1).mean(-1)


def _by_group(values: Floats, groups: NDArray[np.intp]) -> Floats:
    """Return the sums [..., C] over groups of [..., N] values without NaN."""
    rows = np.nan_to_num(values.reshape(-1, len(groups)))
    sums: Floats = np.stack([np.bincount(groups, row) for row in rows]).astype(np.float64)
    return sums.reshape(*values.shape[:-1], -1)


def _beyond_items(parts: Floats) -> tuple[float, int]:
    """Return the variance that trials add to the mean of [T, C] parts, and degrees of freedom."""
    if len(parts) == 1:
        return 0.0, 1
    return crossed_variance(parts)[0] - variance_of_mean(parts.mean(0))[0], len(parts) - 1


def _bootstrap(
    credit: Floats, groups: NDArray[np.intp], half: NDArray[np.bool_], rng: np.random.Generator
) -> Floats:
    """Return values on bootstrap samples of the groups of each half, which repeat the choice."""
    candidates, trials, _ = credit.shape
    sums = _by_group(credit, groups).reshape(candidates * trials, -1)
    counts = _by_group((~np.isnan(credit[0])).astype(float), groups)
    width, values = counts.shape[1], []
    most = max(1, AT_ONCE // width)
    for count in [min(most, SAMPLES - done) for done in range(0, SAMPLES, most)]:
        weights = rng.poisson(1.0, (count, width)).astype(float)
        halves = []
        for part in (half, ~half):
            totals = (weights[:, part] @ sums[:, part].T).reshape(count, candidates, trials)
            halves.append((totals, weights[:, part] @ counts[:, part].T))
        (a, of_a), (b, of_b) = halves
        rows = np.arange(count)
        best_a, best_b = ((x / np.maximum(n, 1)[:, None]).mean(2).argmax(1) for x, n in halves)
        hits = a[rows, best_b] + b[rows, best_a]
        values.append((hits / np.maximum(of_a + of_b, 1)).mean(1))
    return np.concatenate(values)
