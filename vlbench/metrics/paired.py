"""Paired comparison of two models over the same items: difference, interval, p, Holm (1979).

Items of one cluster, such as the regions of an image, are redrawn and flipped together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.errors import counted
from vlbench.metrics.intervals import ROUNDING, Floats, Formula, portions, redrawn

# Flips of signs for a p-value, as a rule.
FLIPS = 9999

# Fewer clusters than this carry a warning.
FEW = 20


class Outcomes(NamedTuple):
    """On how many items the first model has more credit, less, and as much."""

    wins: int
    losses: int
    ties: int


class Comparison(NamedTuple):
    """The first model less the second; `outcomes` is None for a corpus score, which no item has.

    `detectable` is the smallest difference that a two-sided test at 0.05 finds with a power of 0.8
    (Bloom 1995), at the standard error of these items; 0 where nothing varies.
    """

    difference: float
    ci95: tuple[float, float]
    p: float
    detectable: float
    items: int
    clusters: int
    outcomes: Outcomes | None = None
    notes: tuple[str, ...] = ()


def compare_items(
    a: NDArray[Any], b: NDArray[Any], clusters: NDArray[Any], *, flips: int = FLIPS, seed: int = 0
) -> Comparison:
    """Compare the mean credit of two models over N items, [N] or [T, N] for the mean of T trials.

    `clusters` [N] says which items belong together. The interval is of a bootstrap over clusters
    (1,000 draws). p is McNemar's exact one where credits are 0 or 1 and no two items share a
    cluster, else that of random sign flips by cluster. Several trials have interval and p of
    Student's t, with the variance of `_crossed_variance`; NaN in both models is an item that a
    trial leaves out. Raises ValueError for other shapes, for no items, and for other numbers that
    are not finite.
    """
    first, second = (np.atleast_2d(np.asarray(one, np.float64)) for one in (a, b))
    difference = first - second
    absent = np.isnan(first) & np.isnan(second) & (len(first) > 1)
    codes = _codes(np.where(absent, 0, first), np.where(absent, 0, second), clusters)
    if absent.all(0).any() or absent.all(1).any():
        raise ValueError("an item is in no trial, or a trial has no item")
    value, outcomes = float(np.nanmean(difference, 1).mean()), _outcomes(np.nanmean(difference, 0))
    estimate = _of_trials(difference, codes) if len(difference) > 1 else None
    if estimate:
        interval, p, detectable = estimate
    else:
        sums, sizes = np.nansum(_cluster_sums(_weigh(difference).T, codes), 1), np.bincount(codes)
        drawn = redrawn(np.column_stack([sums, sizes]), seed)
        interval = _percentiles(drawn[:, 0] / drawn[:, 1])
        squared = float(((sums - value * sizes) ** 2).sum()) / len(codes) ** 2
        detectable = _detectable(math.sqrt(squared * len(sums) / max(len(sums) - 1, 1)))
        alone = len(difference) == 1 and len(sums) == len(codes)
        exact = alone and _whole(first) and _whole(second)
        p = _mcnemar(outcomes) if exact else sign_flip_p(sums, flips=flips, seed=seed)
    n = int(codes.max()) + 1
    return Comparison(value, interval, p, detectable, len(codes), n, outcomes, _notes(n, interval))


def compare_corpora(
    a: NDArray[Any],
    b: NDArray[Any],
    clusters: NDArray[Any],
    formula: Formula,
    *,
    flips: int = FLIPS,
    seed: int = 0,
) -> Comparison:
    """Compare scores that are a formula of the sums over N items of statistics, [N, S].

    The interval is of a bootstrap over clusters; p of approximate randomisation (Noreen 1989): the
    models swap the statistics of random clusters. Raises ValueError as `compare_items` does.
    """
    first, second = (np.asarray(one, np.float64) for one in (a, b))
    codes = _codes(first.T, second.T, clusters)
    sums = _cluster_sums(np.column_stack([first, second]), codes)
    n = first.shape[1]
    totals = sums.sum(0)
    value = float(formula(totals[:n]) - formula(totals[n:]))
    moved = picked(sums[:, n:] - sums[:, :n], flips, seed)
    swapped = formula(totals[:n] + moved) - formula(totals[n:] - moved)
    drawn = redrawn(sums, seed)
    differences = formula(drawn[:, :n]) - formula(drawn[:, n:])
    interval = _percentiles(differences)
    p = _p(swapped, value, ROUNDING, float((swapped**2).mean()))
    size, notes = _detectable(float(differences.std(ddof=1))), _notes(len(sums), interval)
    return Comparison(value, interval, p, size, len(codes), len(sums), None, notes)


def sign_flip_p(by_cluster: Floats, *, flips: int = FLIPS, seed: int = 0) -> float:
    """Return the two-sided p of the sum of [C] differences under random flips of their signs."""
    total = by_cluster.sum()
    flipped = total - 2 * picked(by_cluster[:, None], flips, seed)[:, 0]
    rounding = ROUNDING * float(abs(by_cluster).sum())
    return _p(flipped, float(total), rounding, float((by_cluster**2).sum()))


def picked(table: Floats, flips: int, seed: int) -> Floats:
    """Return the totals [flips, K] of [C, K] clusters that are each picked with probability 1/2."""
    rng, n = np.random.default_rng(seed), len(table)
    parts = []
    for count in portions(flips, n):
        bits = rng.integers(256, size=(count, -(-n // 8)), dtype=np.uint8)
        parts.append(np.unpackbits(bits, axis=1, count=n).astype(np.float64) @ table)
    return np.concatenate(parts)


def among_all_pairs(p: float, models: int) -> float:
    """Return a p-value of two of so many models, corrected for all pairs of them (Bonferroni).

    A leader is the best of the data: among equal models, some other lies far behind it by luck.
    """
    return min(p * models * (models - 1) / 2, 1.0)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number by the step-down rule of Holm (1979)."""
    values = np.asarray(p, np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(one) for one in adjusted]


def _codes(a: Floats, b: Floats, clusters: NDArray[Any]) -> NDArray[np.intp]:
    """Return clusters numbered from 0, [N]. Raises ValueError for what cannot be compared."""
    if a.shape != b.shape or a.ndim != 2 or not a.size or np.shape(clusters) != a.shape[1:]:
        shapes = ", ".join(str(list(np.shape(one))) for one in (a, b, clusters))
        raise ValueError(f"shapes {shapes}; wanted two equal ones and a cluster for each item")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("a number of an item is not finite")
    codes: NDArray[np.intp] = np.unique(clusters, return_inverse=True)[1]
    return codes


def _weigh(by_trial: Floats) -> Floats:
    """Return [T, N] parts, whose sum over trials has the mean over items of the mean of trials."""
    trials, items = by_trial.shape
    present = (~np.isnan(by_trial)).sum(1, keepdims=True)
    parts: Floats = by_trial * (items / trials / present)
    return parts


def _of_trials(
    by_trial: Floats, codes: NDArray[np.intp]
) -> tuple[tuple[float, float], float, float] | None:
    """Return interval, p and what is detectable of the mean of [T, N] differences.

    Trials and clusters both vary. Student's t. None where nothing varies, or there is one cluster.
    """
    from scipy.special import stdtr, stdtrit  # noqa: PLC0415 - listings must not wait for it

    value = float(np.nanmean(by_trial, 1).mean())
    sums = _cluster_sums(_weigh(by_trial - value).T, codes).T
    if sums.shape[1] == 1:
        return None
    # Each cluster's part in the mean: their mean over trials and clusters is that over items.
    variance, freedom = _crossed_variance(sums * (sums.size / len(codes)))
    error = math.sqrt(variance)
    if error < ROUNDING:
        return None
    half = float(stdtrit(freedom, 0.975)) * error
    p = 2 * float(stdtr(freedom, -abs(value) / error))
    return (value - half, value + half), p, _detectable(error, freedom)


def _detectable(error: float, freedom: float = math.inf) -> float:
    """Return the smallest difference found with a power of 0.8; 0 where there is no error."""
    from scipy.special import stdtrit  # noqa: PLC0415 - as above

    return float(stdtrit(freedom, 0.975) + stdtrit(freedom, 0.8)) * error * (error >= ROUNDING)


def _crossed_variance(parts: Floats) -> tuple[float, float]:
    """Return the variance of the mean of [T, C] parts, of two crossed random effects, about 0.

    It is var(trials) / T + var(clusters) / C, variances with ddof 1, less the variance within,
    which is in both; and at least the larger of the two. The degrees of freedom are those of Welch
    (1947) and Satterthwaite (1946). Pairing leaves much of the variance within: counted twice, it
    would make intervals too wide and p too large. NaN adds nothing to its trial and cluster.
    """
    first, trials = _variance(np.nansum(parts, 1) / parts.shape[1])
    second, clusters = _variance(np.nansum(parts, 0) / parts.shape[0])
    centres = np.nanmean(parts, 1, keepdims=True) + np.nanmean(parts, 0) - np.nanmean(parts)
    count = int((~np.isnan(parts)).sum())
    freedom = count - trials - clusters - 1
    within = float(np.nansum((parts - centres) ** 2)) / parts.size**2
    both = within * count / freedom if freedom > 0 else 0.0
    largest = max((first, trials), (second, clusters))
    variance = first + second - both
    if variance <= largest[0]:
        return largest
    terms = first**2 / trials + second**2 / clusters + both**2 / max(freedom, 1)
    return variance, variance**2 / terms


def _variance(values: Floats) -> tuple[float, int]:
    """Return the variance of the mean of values, and its degrees of freedom."""
    return float(values.var(ddof=1)) / len(values), len(values) - 1


def _whole(credit: Floats) -> bool:
    """Return whether all credits are 0 or 1."""
    return bool(((credit == 0) | (credit == 1)).all())


def _mcnemar(outcomes: Outcomes) -> float:
    """Return the exact two-sided p of as many wins among the items that are no ties."""
    from scipy.special import bdtr  # noqa: PLC0415 - listings must not wait for it

    fewer, decided = min(outcomes[:2]), outcomes.wins + outcomes.losses
    return min(2 * float(bdtr(fewer, decided, 0.5)), 1.0)


def _outcomes(by_item: Floats) -> Outcomes:
    wins, losses = int((by_item > ROUNDING).sum()), int((by_item < -ROUNDING).sum())
    return Outcomes(wins, losses, len(by_item) - wins - losses)


def _cluster_sums(table: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return the sums [C, K] over clusters of [N, K] values; NaN where a cluster has NaN alone."""
    there = ~np.isnan(table)
    sums = [np.bincount(codes, column) for column in np.where(there, table, 0).T]
    counts = [np.bincount(codes, column) for column in there.T]
    return np.where(np.stack(counts, 1) > 0, np.stack(sums, 1), np.nan)


def _p(drawn: Floats, value: float, rounding: float, variance: float) -> float:
    """Return (k + 1) / (N + 1), where k of N draws lie as far from 0 as what was found.

    Where none does, 2 exp(-value^2 / variance / 2) if that is less: no sum of flipped signs lies
    as far more often (Hoeffding 1963); of swapped corpora it is about so.
    """
    further = int((abs(drawn) >= abs(value) - rounding).sum())
    p = (further + 1) / (len(drawn) + 1)
    return p if further or not variance else min(p, 2 * math.exp(-(value**2) / variance / 2))


def _percentiles(drawn: Floats) -> tuple[float, float]:
    low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    return low, high


def _notes(clusters: int, interval: tuple[float, float]) -> tuple[str, ...]:
    few = f"{counted(clusters, 'cluster')}, fewer than {FEW}: interval and p are rough"
    flat = "all clusters differ alike, so that the interval has no width"
    return (few,) * (clusters < FEW) + (flat,) * (interval[1] - interval[0] < ROUNDING)
