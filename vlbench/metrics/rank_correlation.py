"""Draws of classes for the rank correlations of two dissimilarity matrices: Spearman, Kendall.

To rank the pairs of classes anew in each of 1,000 draws would take hours. Both coefficients are
means over pairs of classes of what the other pairs make of them, so that to first order a draw
moves them by the mean influence of the pairs drawn (von Mises 1947, doi:10.1214/aoms/1177730385).
A constant matrix has no rank correlation, and no influence. Matrices are condensed, as in
`vlbench.metrics.rdm`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.metrics.rdm_correlation import drawn_mean, standardised

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# Distances in one of so many bins count as tied with each other, in what the other pairs make of
# one: finer than 1,000 draws can tell.
BINS = 500


class Ranks(NamedTuple):
    """The order of P distances.

    `rank` is the mean rank of equal distances, in (0, 1), and `spread` its standard deviation.
    `bins` numbers, in ascending order, those that are equal or lie together. `untied` is the
    fraction of the distances that differ from each.
    """

    rank: Floats
    bins: Places
    spread: float
    untied: Floats


def spearman_deviations(matrices: NDArray[Any], draws: Floats) -> Floats:
    """Return how far Spearman's rho of [K, P] matrices moves in each draw, [K, K, draws]."""
    return _deviations(matrices, draws, _spearman_influence)


def kendall_deviations(matrices: NDArray[Any], draws: Floats) -> Floats:
    """Return how far Kendall's tau b of [K, P] matrices moves in each draw, [K, K, draws]."""
    return _deviations(matrices, draws, _kendall_influence)


def _deviations(
    matrices: NDArray[Any], draws: Floats, influence: Callable[[Ranks, Ranks], Floats]
) -> Floats:
    """Return the mean influence of the pairs in each of [draws, C] draws, [K, K, draws]."""
    varied = [bool(z.any()) for z in standardised(matrices)]
    ranks = [ranked(row) if v else None for row, v in zip(matrices, varied, strict=True)]
    found = np.zeros((len(matrices), len(matrices), len(draws)))
    for (i, x), (j, y) in combinations(enumerate(ranks), 2):
        if x and y:
            values = influence(x, y)
            found[i, j] = found[j, i] = drawn_mean(values - values.mean(), draws)
    return found


def ranked(distances: NDArray[Any]) -> Ranks:
    """Return the order of [P] distances."""
    _, group, size = np.unique(distances, return_inverse=True, return_counts=True)
    n, above = len(distances), np.cumsum(size)
    rank = ((above - size / 2) / n)[group]
    bins = group if len(size) <= BINS else (rank * BINS).astype(np.int64)
    return Ranks(rank, bins, float(rank.std()), (1 - size / n)[group])


def _spearman_influence(x: Ranks, y: Ranks) -> Floats:
    """Return the influence of each pair [P]: its own ranks, and its part in those of the others."""
    parts = x.rank * y.rank + _mean_above(x.bins, y.rank) + _mean_above(y.bins, x.rank)
    return np.asarray(parts / (x.spread * y.spread))


def _mean_above(bins: Places, values: Floats) -> Floats:
    """Return for each place the sum of values in bins above its own, and half its own, over P."""
    sums = np.bincount(bins, weights=values)
    above = np.cumsum(sums[::-1])[::-1]
    return np.asarray(((above - sums / 2) / len(values))[bins])


def _kendall_influence(x: Ranks, y: Ranks) -> Floats:
    """Return the influence of each pair [P]: twice how concordant it is with the others."""
    rows, columns = int(x.bins.max()) + 1, int(y.bins.max()) + 1
    counts = np.bincount(x.bins * columns + y.bins, minlength=rows * columns)
    # What is before or after in both is concordant, what is before in one alone is not.
    sides = _below_less_above(_below_less_above(counts.reshape(rows, columns).astype(float)).T).T
    concordant = sides[x.bins, y.bins] / len(x.bins)
    untied = [(one.untied, float(one.untied.mean())) for one in (x, y)]
    scale = np.sqrt(untied[0][1] * untied[1][1])
    # Tau b divides by the root of both fractions that are not tied, which a draw moves, too.
    ties = sum(values / mean for values, mean in untied)
    return np.asarray((2 * concordant - concordant.mean() * ties) / scale)


def _below_less_above(counts: Floats) -> Floats:
    """Return for each row of counts the sum of the rows before it, less that of those after."""
    upto = np.cumsum(counts, axis=0)
    return np.asarray(2 * upto - counts - upto[-1])
