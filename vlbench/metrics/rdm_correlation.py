"""Pearson correlation of dissimilarity matrices over pairs of classes. arXiv:2104.08313, section 4.

Pairs of classes are not independent. So the chance level comes from permuted classes, and the
intervals come from a jackknife over classes, or over the categories that contain the classes. Both
are computed for all pairs of matrices at once by matrix products. Matrices are condensed, as in
SciPy, and are the columns of a table [P, K]. The correlation of a constant matrix is undefined and
counts as 0, the score of unrelated matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.metrics.intervals import ROUNDING, student_quantile, unseen

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

PERMUTATIONS = 100

# A matrix whose spread is at most this fraction of its norm is constant up to rounding. Not
# imported from metrics.ranking, which needs PyTorch: 580 MB that comparing matrices does not need.
CONSTANT = 1e-6

# Correlations are clipped to this before Fisher's transform, which is infinite at 1.
NEAREST = 1 - 1e-12

# Rows of a table multiplied at a time, and numbers in a block of correlations.
ROWS = 4_096
AT_ONCE = 1 << 24


class Interval(NamedTuple):
    """Standard errors and 95 % intervals."""

    stderr: Any
    ci95: tuple[Any, Any]


def standardised(matrices: Iterable[NDArray[Any]], count: int, kind: Any = np.float64) -> Any:
    """Return a table [P, count] of matrices [P] with mean 0 and norm 1; a constant matrix is all 0.

    Example:
        >>> standardised([[1, 2, 3], [5, 5, 5]], 2).round(4).tolist()  # -1, 0 and 1 by sqrt(2)
        [[-0.7071, 0.0], [0.0, 0.0], [0.7071, 0.0]]
    """
    table: Any = None
    for column, matrix in enumerate(matrices):
        values = np.asarray(matrix, np.float64)
        if table is None:
            table = np.empty((len(values), count), kind)
        centred = values - values.mean()
        length = np.linalg.norm(centred)
        is_constant = length <= CONSTANT * np.linalg.norm(values)
        table[:, column] = 0.0 if is_constant else centred / length
    return table


def correlations(table: NDArray[Any]) -> Floats:
    """Return Pearson's r between the columns of a standardised table, [K, K].

    Example:
        >>> table = standardised([[1, 2, 3], [1, 3, 2]], 2)
        >>> correlations(table).round(4).tolist()  # (-1 * -1 + 0 * 1 + 1 * 0) / 2
        [[1.0, 0.5], [0.5, 1.0]]
    """
    products = sum(part.T @ part for part in (rows.astype(np.float64) for rows in _blocks(table)))
    return np.clip(products, -1.0, 1.0)


def full_length(halves: Any) -> Any:
    """Return the reliability of the whole from the correlation r of its halves, 2 r / (1 + |r|).

    Spearman (1910) and Brown (1910): exact if the errors of the halves are independent, and the
    errors of the whole are half as large. For r < 0, where the formula has no meaning, it is
    mirrored at 0, so that the result is at least -1.

    Example:
        >>> round(full_length(0.5), 4)  # 1 / 1.5
        0.6667
    """
    return 2 * halves / (1 + abs(halves))


def noise_ceiling(reliability: Any) -> tuple[Any, Any]:
    """Return bounds of the correlation between the true matrix and a measured matrix.

    These are the bounds of Nili et al. 2014 (doi:10.1371/journal.pcbi.1003553) for two measurements
    whose correlation is `reliability`, r: the correlation with each other, r, and with the mean of
    both, sqrt((1 + r) / 2). The limit for many measurements, sqrt(r), is between them. A
    reliability below 0 counts as 0.

    Example:
        >>> [round(float(bound), 4) for bound in noise_ceiling(0.5)]  # sqrt(0.75)
        [0.5, 0.866]
    """
    positive = np.maximum(reliability, 0.0)
    return positive, np.sqrt((1 + positive) / 2)


def left_out(table: NDArray[Any], groups: Places) -> Iterator[Floats]:
    """Yield correlations of some columns with all columns, leaving out each of G groups, [G, I, K].

    `groups` [C] has the group of each class, from 0; a group is left out with all pairs of its
    classes.

    Example:
        >>> table = standardised([[9, 7, 8, 1, 2, 3], [5, 6, 4, 1, 3, 2]], 2)  # pairs of 4 classes
        >>> (less,) = left_out(table, np.arange(4))
        >>> less.shape, round(float(less[0, 0, 1]), 4)  # without class 0: (1, 2, 3), (1, 3, 2)
        ((4, 2, 2), 0.5)
    """
    i, j = (groups[side] for side in np.triu_indices(len(groups), 1))
    places = [np.flatnonzero((i == g) | (j == g)) for g in range(int(groups.max()) + 1)]
    kept = np.array([[max(len(table) - len(dropped), 1)] for dropped in places])
    means, squares = np.empty((2, len(places), table.shape[1]))
    for g, dropped in enumerate(places):
        rows = table[dropped].astype(np.float64)
        means[g], squares[g] = -rows.sum(0), -np.einsum("pk,pk->k", rows, rows)
    for rows in _blocks(table):
        means += rows.sum(0, np.float64)
        squares += np.einsum("pk,pk->k", rows, rows, dtype=np.float64)
    means, squares = means / kept, squares / kept
    spread = squares - means**2
    spread = np.sqrt(np.where(spread <= CONSTANT**2 * squares, 0.0, spread))
    step = max(1, AT_ONCE // means.size)
    for first in range(0, table.shape[1], step):
        columns = slice(first, first + step)
        whole = sum(
            rows[:, columns].T @ rows for rows in (b.astype(np.float64) for b in _blocks(table))
        )
        coefficients = np.empty((len(places), *np.shape(whole)))
        for g, dropped in enumerate(places):
            rows = table[dropped].astype(np.float64)
            coefficients[g] = (whole - rows[:, columns].T @ rows) / kept[g]
        coefficients -= means[:, columns, None] * means[:, None]
        scale = spread[:, columns, None] * spread[:, None]
        np.divide(coefficients, scale, out=coefficients, where=scale > 0)
        coefficients[scale <= 0] = 0.0
        yield np.clip(coefficients, -1.0, 1.0, out=coefficients)


def jackknife(values: Floats, less: Floats) -> Interval:
    """Return standard errors and intervals of correlations; `less` leaves out each group, [G, ...].

    The variance is the jackknife's on Fisher's scale (1921). It is too large on average, because it
    counts the variance of pairs of groups twice (Efron and Stein 1981), and it varies more than the
    variance of independent values. Intervals cover too often with Student's quantile of G - 1
    degrees of freedom and too seldom with the normal quantile; 2 (G - 1) degrees were chosen by
    simulation, in benchmarks/coverage.py. If no group changes a correlation, the fraction `unseen`
    of the groups may have a correlation of -1 or 1. The standard error is derived from the
    interval's width.

    Example:
        >>> interval = jackknife(np.array(0.0), np.tanh([-0.1, 0.1]))
        >>> [round(end, 4) for end in interval.ci95]  # -+ tanh(4.3027 * 0.1), 2 degrees of freedom
        [-0.4055, 0.4055]
    """
    freedom = 2 * (len(less) - 1)
    centre, drawn = (np.arctanh(np.clip(side, -NEAREST, NEAREST)) for side in (values, less))
    half = student_quantile(freedom) * np.sqrt(freedom / 2 * drawn.var(axis=0))
    low = np.minimum(np.tanh(centre - half), values)
    high = np.maximum(np.tanh(centre + half), values)
    is_flat, part = high - low < ROUNDING, unseen(len(less))
    low = np.where(is_flat, values - part * (1 + values), low)
    high = np.where(is_flat, values + part * (1 - values), high)
    stderr = (high - low) / 2 / student_quantile(freedom)
    return Interval(stderr.tolist(), (low.tolist(), high.tolist()))


def permuted(table: NDArray[Any], *, seed: int, count: int = PERMUTATIONS) -> Floats:
    """Return the 95 % quantile of the correlations under class permutations, [K, K].

    Each of `count` permutations is applied to one matrix of a pair, and then to the other.

    Example:
        >>> table = standardised([[1, 2, 3]], 1)  # one of six orders of the classes changes nothing
        >>> permuted(table, seed=0).round(4).tolist()
        [[1.0]]
    """
    classes = (1 + math.isqrt(1 + 8 * len(table))) // 2  # their pairs are the rows
    rng, square = np.random.default_rng(seed), _square(classes)
    i, j = np.triu_indices(classes, 1)
    sums = np.zeros((count, table.shape[1], table.shape[1]), table.dtype)
    for product in sums:
        order = rng.permutation(classes)
        moved = square[order[i], order[j]]
        total = np.zeros(product.shape)
        for first in range(0, len(table), ROWS):
            rows = slice(first, first + ROWS)
            total += table[rows].T @ table[moved[rows]]
        product[:] = total
    both = (np.concatenate([sums[:, k], sums[:, :, k]]) for k in range(table.shape[1]))
    return np.array([np.quantile(column, 0.95, axis=0) for column in both])


def _square(classes: int) -> Places:
    """Return the row of each pair of classes in a table, [C, C]; 0 for a class with itself."""
    i, j = np.triu_indices(classes, 1)
    square = np.zeros((classes, classes), np.intp)
    square[i, j] = square[j, i] = np.arange(len(i))
    return square


def _blocks(table: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (table[first : first + ROWS] for first in range(0, len(table), ROWS))
