"""Random draws of clusters: with replacement, for a bootstrap, and each with probability 1/2."""

from __future__ import annotations

import numpy as np

from vlbench.metrics.statistics import DRAWS, Floats

# Numbers that are drawn at once, so that memory does not grow with the draws.
AT_ONCE = 1 << 18


def redrawn(sums: Floats, seed: int) -> Floats:
    """Return the totals [1,000, K] of [C, K] clusters that are drawn with replacement."""
    rng, n = np.random.default_rng(seed), len(sums)
    parts = []
    for count in _portions(DRAWS, n):
        drawn = rng.integers(n, size=(count, n)) + n * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * n).reshape(count, n)
        parts.append(times.astype(np.float64) @ sums)
    return np.concatenate(parts)


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
