"""Pearson correlation of dissimilarity matrices over pairs of classes. arXiv:2104.08313, section 4.

Pairs of classes are not independent. So the chance level comes from permuted classes, and the
intervals from classes drawn with replacement. Matrices are condensed, as in `vlbench.metrics.rdm`.
A constant matrix has no correlation; it counts as 0, the score of unrelated matrices.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.metrics.ranking import TIED

Floats = NDArray[np.float64]

DRAWS = 1_000
PERMUTATIONS = 100


class Interval(NamedTuple):
    """A standard error, and the middle 95 % of the draws of classes."""

    stderr: float
    ci95: tuple[float, float]


def standardised(matrices: NDArray[Any]) -> Floats:
    """Return [..., P] condensed matrices with mean 0 and |z|^2 = 1; a constant one is all 0."""
    values = np.asarray(matrices, np.float64)
    scale = np.linalg.norm(values, axis=-1, keepdims=True)
    centred = values - values.mean(-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    constant = length <= TIED * scale
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, length))


def correlations(matrices: NDArray[Any]) -> Floats:
    """Return Pearson's r of [K, P] condensed matrices with each other, [K, K] in [-1, 1]."""
    z = standardised(matrices)
    return np.clip(z @ z.T, -1.0, 1.0)


def class_draws(classes: int, *, seed: int, draws: int = DRAWS) -> Floats:
    """Return how often each class occurs in each draw with replacement, [draws, C]."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(classes, np.full(classes, 1 / classes), size=draws).astype(np.float64)


def drawn_mean(values: Floats, draws: Floats) -> Floats:
    """Return the mean of [P] values of pairs of classes in each of [draws, C] draws, [draws].

    A pair counts as often as both its classes occur in the draw; a class with itself is no pair.
    """
    from scipy.spatial.distance import squareform  # noqa: PLC0415 - slow to import

    pairs = np.maximum(draws.sum(1) ** 2 - (draws**2).sum(1), 1.0)
    # A weighted sum over pairs is a quadratic form: one matrix product for all draws.
    total = ((draws @ squareform(values, checks=False)) * draws).sum(1)
    return np.asarray(total / pairs)


def redrawn(matrices: NDArray[Any], draws: Floats) -> Floats:
    """Return the [K, K] correlations in each draw of [draws, C] classes, [K, K, draws].

    They are means over pairs as `drawn_mean` takes them.
    """
    z = standardised(matrices)
    means = np.array([drawn_mean(row, draws) for row in z])
    products = np.empty((len(z), len(z), len(draws)))
    for i, j in combinations_with_replacement(range(len(z)), 2):
        products[i, j] = products[j, i] = drawn_mean(z[i] * z[j], draws)
    squares = np.einsum("iid->id", products)
    spread = squares - means**2
    spread = np.where(spread <= TIED**2 * squares, 0.0, spread)
    scale = np.sqrt(spread[:, None] * spread)
    covariance = products - np.einsum("id,jd->ijd", means, means)
    found = np.divide(covariance, scale, out=np.zeros_like(products), where=scale > 0)
    return np.asarray(np.clip(found, -1.0, 1.0))


def interval(draws: Floats) -> Interval:
    """Return the standard error and the 95 % interval of a value's bootstrap draws."""
    low, high = np.quantile(draws, (0.025, 0.975)).tolist()
    return Interval(float(draws.std(ddof=1)), (low, high))


def permuted(matrices: NDArray[Any], *, seed: int, count: int = PERMUTATIONS) -> Floats:
    """Return the 95 % quantile of the correlations under class permutations, [K, K].

    Each of `count` permutations is applied to one matrix of a pair, and then to the other.
    """
    from scipy.spatial.distance import squareform  # noqa: PLC0415 - slow to import

    z = standardised(matrices)
    rng, classes = np.random.default_rng(seed), len(squareform(z[0], checks=False))
    i, j = np.triu_indices(classes, 1)
    place = squareform(np.arange(len(i)), checks=False)
    found = np.empty((2, count, len(z), len(z)))
    # The values of all matrices for a pair lie side by side, so that they move together.
    by_pair = np.ascontiguousarray(z.T)
    for k in range(count):
        order = rng.permutation(classes)
        found[0, k] = z @ by_pair[place[order[i], order[j]]]
        found[1, k] = found[0, k].T
    return np.asarray(np.quantile(found.reshape(-1, len(z), len(z)), 0.95, axis=0))
