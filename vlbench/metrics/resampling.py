"""Random draws of clusters: with replacement, for a bootstrap, and each with probability 1/2."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlbench.metrics.statistics import DRAWS, Floats

# Numbers that are drawn at once, so that memory does not grow with the draws.
AT_ONCE = 1 << 18

# Draws of as many clusters are kept for the next comparison, as bytes: 64 MB. Those of few are
# kept as the numbers that are multiplied: 32 MB.
MOST_KEPT, FEW = 1 << 16, 1 << 12


def redrawn(sums: Floats, seed: int) -> Floats:
    """Return the totals [1,000, K] of [C, K] clusters that are drawn with replacement."""
    n = len(sums)
    draws = _kept_draws(n, seed) if n <= MOST_KEPT else _drawn(n, seed)
    return np.concatenate([times.astype(np.float64, copy=False) @ sums for times in draws])


@lru_cache(maxsize=2)
def _kept_draws(clusters: int, seed: int) -> list[NDArray[Any]]:
    """Return what `_drawn` yields: a board's models are compared over the same clusters."""
    return list(_drawn(clusters, seed))


def _drawn(clusters: int, seed: int) -> Iterator[NDArray[Any]]:
    """Yield how often each cluster is in each of some of 1,000 draws."""
    # Hundreds of times is a cluster in no draw, unless there are hundreds of billions.
    kind = np.float64 if clusters <= FEW else np.uint8
    rng = np.random.default_rng(seed)
    for count in _portions(DRAWS, clusters):
        drawn = rng.integers(clusters, size=(count, clusters))
        drawn += clusters * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * clusters)
        yield times.reshape(count, clusters).astype(kind)


def picked(table: Floats, flips: int, seed: int) -> Floats:
    """Return the totals [flips, K] of [C, K] clusters that are each picked with probability 1/2."""
    rng, n = np.random.default_rng(seed), len(table)
    parts = []
    for count in _portions(flips, n):
        bits = rng.integers(256, size=(count, -(-n // 8)), dtype=np.uint8)
        parts.append(np.unpackbits(bits, axis=1, count=n).astype(np.float64) @ table)
    return np.concatenate(parts)


def _portions(draws: int, clusters: int) -> list[int]:
    """Return how many draws to make at a time, so that memory does not grow with the clusters."""
    most = max(1, AT_ONCE // clusters)
    return [min(most, draws - done) for done in range(0, draws, most)]
