"""Pearson correlation of dissimilarity matrices over pairs of classes. arXiv:2104.08313, section 4.

Pairs of classes are not independent. So the chance level comes from permuted classes, and the
intervals from classes drawn with replacement. Permutations and draws are the same for all matrices,
and matrix products take them to all pairs of matrices at once. Matrices are condensed, as SciPy
has them, and the columns of a table [P, K]. A constant matrix has no correlation; it counts as 0,
the score of unrelated matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

DRAWS = 1_000
PERMUTATIONS = 100

# Of more classes than this, a draw is taken to first order: what pairs of classes add to the effect
# of each of them is below 1 % of a standard error.
MOST_EXACT = 100

# A matrix whose spread is at most this fraction of its length is constant, but for rounding. Not
# metrics.ranking's: that module takes PyTorch, 580 MB that comparing matrices does not need.
CONSTANT = 1e-6

# Rows of a table that are multiplied at a time, and numbers of a block of draws.
ROWS = 4_096
AT_ONCE = 1 << 24


class Interval(NamedTuple):
    """A standard error, and the middle 95 % of the draws of classes."""

    stderr: Any
    ci95: tuple[Any, Any]


def standardised(matrices: Iterable[NDArray[Any]], count: int, kind: Any = np.float64) -> Any:
    """Return a table [P, count] of [P] matrices, mean 0 and |z|^2 = 1; a constant one is all 0."""
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
    """Return Pearson's r of the columns of a standardised table with each other, [K, K]."""
    products = sum(part.T @ part for part in (rows.astype(np.float64) for rows in _blocks(table)))
    return np.clip(products, -1.0, 1.0)


def full_length(halves: Any) -> Any:
    """Return the reliability of a whole from the correlation r of its halves, 2 r / (1 + |r|).

    Spearman (1910) and Brown (1910): exact where the errors of the halves are independent, and
    those of the whole half as large. Below 0, where it has no meaning, it is as far on the other
    side, so that it stays within -1.
    """
    return 2 * halves / (1 + abs(halves))


def noise_ceiling(reliability: Any) -> tuple[Any, Any]:
    """Return the least and the most that the true matrix can be said to correlate with a measured.

    They are the lower and the upper bound of Nili et al. 2014 (doi:10.1371/journal.pcbi.1003553)
    over two measurements that correlate at `reliability`, r: each with the other, and each with the
    mean of both, sqrt((1 + r) / 2). Between them lies sqrt(r), which holds in the limit. One of 0
    or less counts as 0.
    """
    positive = np.maximum(reliability, 0.0)
    return positive, np.sqrt((1 + positive) / 2)


def class_draws(classes: int, *, seed: int, draws: int = DRAWS) -> Floats:
    """Return how often each class occurs in each draw with replacement, [draws, C]."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(classes, np.full(classes, 1 / classes), size=draws).astype(np.float64)


def redrawn(table: NDArray[Any], draws: Floats) -> Iterator[Floats]:
    """Yield the correlations of some columns with all in each of [draws, C] draws, [draws, I, K].

    A pair of classes counts as often as both of them occur in the draw; a class with itself is no
    pair.
    """
    weights, pairs = _draw_weights(draws)
    count = table.shape[1]
    sums, squares = np.empty((2, len(pairs), count))
    for unit, places in enumerate(pairs):
        rows = table[places].astype(np.float64)
        sums[unit], squares[unit] = rows.sum(0), np.einsum("pk,pk->k", rows, rows)
    means, squares = weights @ sums, weights @ squares
    spread = squares - means**2
    spread = np.sqrt(np.where(spread <= CONSTANT**2 * squares, 0.0, spread))
    step = max(1, AT_ONCE // (count * max(weights.shape)))
    for first in range(0, count, step):
        own = slice(first, first + step)
        products = np.empty((len(pairs), *table[:1, own].shape[1:], count))
        for unit, places in enumerate(pairs):
            rows = table[places].astype(np.float64)
            products[unit] = rows[:, own].T @ rows
        totals = (weights @ products.reshape(len(pairs), -1)).reshape(len(draws), -1, count)
        del products
        for i in range(totals.shape[1]):
            covariance = totals[:, i]
            covariance -= means[:, first + i, None] * means
            scale = spread[:, first + i, None] * spread
            np.divide(covariance, scale, out=covariance, where=scale > 0)
            covariance[scale <= 0] = 0.0
        yield np.clip(totals, -1.0, 1.0, out=totals)


def interval(draws: Floats) -> Interval:
    """Return the standard error and the 95 % interval of values in [draws, ...] draws."""
    low, high = np.quantile(draws, (0.025, 0.975), axis=0).tolist()
    return Interval(draws.std(axis=0, ddof=1).tolist(), (low, high))


def permuted(table: NDArray[Any], *, seed: int, count: int = PERMUTATIONS) -> Floats:
    """Return the 95 % quantile of the correlations under class permutations, [K, K].

    Each of `count` permutations is applied to one matrix of a pair, and then to the other.
    """
    classes = _classes(table)
    rng, square = np.random.default_rng(seed), _square(classes)
    i, j = np.triu_indices(classes, 1)
    sums = np.zeros((count, table.shape[1], table.shape[1]), table.dtype)
    for one in sums:
        order = rng.permutation(classes)
        moved = square[order[i], order[j]]
        total = np.zeros(one.shape)
        for first in range(0, len(table), ROWS):
            rows = slice(first, first + ROWS)
            total += table[rows].T @ table[moved[rows]]
        one[:] = total
    both = (np.concatenate([sums[:, k], sums[:, :, k]]) for k in range(table.shape[1]))
    return np.array([np.quantile(one, 0.95, axis=0) for one in both])


def _draw_weights(draws: Floats) -> tuple[Floats, Places]:
    """Return the weights [draws, U] of parts of a sum over pairs, and the pairs of each, [U, M].

    A part is one pair, or of many classes all pairs of a class: to first order in how often each
    class is drawn, the mean over the pairs of a draw is a sum over classes.
    """
    classes = draws.shape[1]
    if classes > MOST_EXACT:
        pairs = _square(classes)[~np.eye(classes, dtype=bool)].reshape(classes, classes - 1)
        return (2 * draws - 1) / (classes * (classes - 1)), pairs
    i, j = np.triu_indices(classes, 1)
    often = draws[:, i] * draws[:, j]
    return often / np.maximum(often.sum(1, keepdims=True), 1.0), np.arange(len(i))[:, None]


def _classes(table: NDArray[Any]) -> int:
    """Return how many classes have so many pairs."""
    return (1 + math.isqrt(1 + 8 * len(table))) // 2


def _square(classes: int) -> Places:
    """Return the row of each pair of classes in a table, [C, C]; 0 for a class with itself."""
    i, j = np.triu_indices(classes, 1)
    square = np.zeros((classes, classes), np.intp)
    square[i, j] = square[j, i] = np.arange(len(i))
    return square


def _blocks(table: NDArray[Any]) -> Iterator[NDArray[Any]]:
    return (table[first : first + ROWS] for first in range(0, len(table), ROWS))
