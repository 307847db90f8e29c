"""How sure a score is: standard errors and 95 % intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Standard normal quantile of 97.5 %.
Z95 = 1.959963984540054

# A standard error below this is the rounding of equal numbers.
ROUNDING = 1e-9


class Estimate(NamedTuple):
    """A share in [0, 1] with its standard error and 95 % interval."""

    value: float
    stderr: float
    ci95: tuple[float, float]


def wilson(successes: float, n: int) -> Estimate:
    """Return the share of n independent items with Wilson's score interval (1927).

    Successes may be fractions: an item that was guessed among k counts 1 / k.
    Raises ValueError where there are no items or more successes than items.
    """
    if n < 1 or not -ROUNDING <= successes <= n * (1 + ROUNDING):
        raise ValueError(f"{successes} successes of {n} items; wanted 0 <= successes <= n, n >= 1")
    share = min(max(successes / n, 0.0), 1.0)
    shrink = 1 + Z95**2 / n
    centre = (share + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    stderr = math.sqrt(share * (1 - share) / n)
    return Estimate(share, stderr, (max(centre - half, 0.0), min(centre + half, 1.0)))


def mean_of_trials(credit: NDArray[Any]) -> Estimate:
    """Return the mean of [trials, items] credits in [0, 1], all trials on the same items.

    Trials and items both vary: stderr^2 = var(trial means) / trials + var(item means) / items,
    variances with ddof 1, the interval +-1.96 stderr cut to [0, 1]. One trial has the second part
    alone. Where nothing varies, or there is one item, both are Wilson's with n = items.
    Raises ValueError where there are no trials or no items.
    """
    if credit.ndim != 2 or credit.size == 0:
        raise ValueError(
            f"credit has shape {list(credit.shape)}; wanted [trials, items], not empty"
        )
    items = credit.shape[1]
    value = float(credit.mean(dtype=np.float64))
    by_item = credit.mean(0, dtype=np.float64)
    by_trial = credit.mean(1, dtype=np.float64)
    stderr = math.sqrt(_variance_of_mean(by_trial) + _variance_of_mean(by_item))
    if items == 1 or stderr < ROUNDING:
        return wilson(value * items, items)
    interval = (max(value - Z95 * stderr, 0.0), min(value + Z95 * stderr, 1.0))
    return Estimate(value, stderr, interval)


def bootstrap_share(hits: NDArray[Any], counts: NDArray[Any], *, seed: int = 0) -> Estimate:
    """Return sum(hits) / sum(counts), where items share [N] clusters, such as images.

    As `bootstrap_ratio`; where all clusters have the same share, which redrawing cannot spread,
    Wilson's with n = clusters.
    """
    estimate = bootstrap_ratio(hits, counts, seed=seed)
    if estimate.stderr > ROUNDING:
        return estimate
    return wilson(estimate.value * len(counts), len(counts))


def bootstrap_ratio(
    parts: NDArray[Any], wholes: NDArray[Any], *, draws: int = 1000, seed: int = 0
) -> Estimate:
    """Return sum(parts) / sum(wholes) over [N] clusters, which `draws` times are redrawn.

    The interval runs from the 2.5 % to the 97.5 % quantile; draws whose whole is nothing are left
    out. For a paired difference of two shares, parts are the differences of their hits. Raises
    ValueError where the whole is nothing.
    """
    if not len(wholes) or wholes.sum() <= 0:
        raise ValueError(f"a share of nothing: {len(wholes)} clusters whose counts sum to 0")
    # Clusters that are alike are drawn together: how many of a kind come up is multinomial.
    kinds, times = np.unique(np.stack([parts, wholes], 1), axis=0, return_counts=True)
    n = len(wholes)
    sums = np.random.default_rng(seed).multinomial(n, times / n, draws) @ kinds
    ratios = sums[sums[:, 1] > 0]
    ratios = ratios[:, 0] / ratios[:, 1]
    low, high = np.quantile(ratios, (0.025, 0.975)).tolist()
    return Estimate(float(parts.sum() / wholes.sum()), float(ratios.std()), (low, high))


def _variance_of_mean(values: NDArray[np.float64]) -> float:
    """Return var / n, ddof 1; nothing for a single value, which cannot vary."""
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
