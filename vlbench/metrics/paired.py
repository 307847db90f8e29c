"""Paired comparison of two models over the same items: difference, interval, p, Holm (1979).

Items of one cluster, such as the regions of an image, are left out and flipped together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.errors import counted
from vlbench.metrics.intervals import (
    ROUNDING,
    Floats,
    Formula,
    crossed_variance,
    jackknife_variance,
    plain_ends,
    student_quantile,
    unvaried,
    variance_of_ratios,
    variance_over_pairs,
)

# Flips of signs for a p-value, as a rule.
FLIPS = 9999

# Numbers drawn at once, so that memory does not grow with the draws.
AT_ONCE = 1 << 18

# Results with fewer clusters have a note.
FEW = 20


# An interval, a p-value, and the detectable difference.
Student = tuple[tuple[float, float], float, float]


class Outcomes(NamedTuple):
    """Number of items on which the first model scores higher, lower, and equal."""

    wins: int
    losses: int
    ties: int


class Comparison(NamedTuple):
    """The first model minus the second; `outcomes` is None for corpus scores, which no item has.

    `detectable` is the smallest difference that a two-sided test at level 0.05 detects with power
    0.8 (Bloom 1995), given the standard error of these items.
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
    a: NDArray[Any],
    b: NDArray[Any],
    clusters: NDArray[Any],
    *,
    halves: NDArray[Any] | None = None,
    flips: int = FLIPS,
    seed: int = 0,
) -> Comparison:
    """Compare the mean credit of two models over N items, [N] or [T, N] for the mean of T trials.

    `clusters` [N] has the cluster of each item. The interval uses Student's t, with the variance
    over clusters of `variance_of_ratios`. p is McNemar's mid-p if credits are 0 or 1 and no two
    items share a cluster, else p of random sign flips by cluster. In three cases interval and p
    both use Student's t: several trials, with `crossed_variance`; items of two clusters each, [N,
    2], with `variance_over_pairs`; and scores whose items depend on each other, such as clustering
    scores, with the variance of the differences on random `halves` of the items. NaN in both models
    is an item that a trial leaves out. Raises ValueError for other shapes, for no items, and for
    other numbers that are not finite.

    Example:
        >>> a, b = np.array([1, 0, 0, 0, 0, 0]), np.array([0, 1, 1, 1, 1, 1])
        >>> compared = compare_items(a, b, np.arange(6))
        >>> compared.outcomes
        Outcomes(wins=1, losses=5, ties=0)
        >>> round(compared.difference, 4), round(compared.p, 4)  # 2 * (1 + 6 / 2) / 2^6
        (-0.6667, 0.125)
    """
    first, second = (np.atleast_2d(np.asarray(values, np.float64)) for values in (a, b))
    difference = first - second
    absent = np.isnan(first) & np.isnan(second) & (len(first) > 1)
    codes = _codes(np.where(absent, 0, first), np.where(absent, 0, second), clusters)
    if absent.all(0).any() or absent.all(1).any():
        raise ValueError("an item is in no trial, or a trial has no item")
    value, outcomes = float(np.nanmean(difference, 1).mean()), _outcomes(np.nanmean(difference, 0))
    n, estimate = int(codes.max()) + 1, None
    if halves is not None:
        estimate = _student(value, float(np.var(halves, ddof=1)), len(halves) - 1)
    elif codes.ndim > 1:
        estimate = _student(value, *variance_over_pairs(difference - value, codes))
        codes = codes[:, 0]
    elif len(difference) > 1:
        estimate = _of_trials(difference, codes)
    if estimate:
        interval, p, detectable = estimate
    else:
        sums, sizes = np.nansum(_cluster_sums(_weigh(difference).T, codes), 1), np.bincount(codes)
        (variance,), freedom = variance_of_ratios(sums[:, None], sizes)
        most = max(1.0, np.nanmax([first, second])) - min(0.0, np.nanmin([first, second]))
        interval, detectable = _around(value, math.sqrt(variance), freedom, n, float(most))
        alone = len(difference) == 1 and len(sums) == len(codes)
        exact = alone and _whole(first) and _whole(second)
        p = _mcnemar(outcomes) if exact else sign_flip_p(sums, flips=flips, seed=seed)
    return Comparison(value, interval, p, detectable, len(codes), n, outcomes, _notes(n))


def compare_corpora(
    a: NDArray[Any],
    b: NDArray[Any],
    clusters: NDArray[Any],
    formula: Formula,
    *,
    flips: int = FLIPS,
    seed: int = 0,
) -> Comparison:
    """Compare scores that are a formula of sums over N items, whose statistics are [N, S].

    The interval uses a jackknife over clusters and Student's t. p is from approximate randomisation
    (Noreen 1989): the models swap the statistics of random clusters. Raises ValueError as
    `compare_items` does.

    Example:
        >>> a, b = np.array([[1, 1], [2, 3]]), np.array([[0, 1], [1, 3]])
        >>> compared = compare_corpora(a, b, np.arange(2), lambda sums: sums[..., 0] / sums[..., 1])
        >>> compared.difference  # 3 / 4 - 1 / 4; with one left out, 2 / 3 - 1 / 3 or 1 - 0
        0.5
        >>> [round(end, 3) for end in compared.ci95]  # 0.5 -+ 12.706 * sqrt(1 / 9)
        [-3.735, 4.735]
    """
    first, second = (np.asarray(values, np.float64) for values in (a, b))
    codes = _codes(first.T, second.T, clusters)
    sums = _cluster_sums(np.column_stack([first, second]), codes)
    n = first.shape[1]
    totals = sums.sum(0)
    value = float(formula(totals[:n]) - formula(totals[n:]))
    moved = half_totals(sums[:, n:] - sums[:, :n], flips, seed)
    swapped = formula(totals[:n] + moved) - formula(totals[n:] - moved)
    less, freedom = totals - sums, max(len(sums) - 1, 1)
    error = math.sqrt(jackknife_variance(formula(less[:, :n]) - formula(less[:, n:])))
    most = max(1.0, *np.abs([formula(totals[:n]), formula(totals[n:])]))
    interval, size = _around(value, error, freedom, len(sums), float(most))
    p = _p(swapped, value, ROUNDING, float((swapped**2).mean()))
    return Comparison(value, interval, p, size, len(codes), len(sums), None, _notes(len(sums)))


def sign_flip_p(by_cluster: Floats, *, flips: int = FLIPS, seed: int = 0) -> float:
    """Return the two-sided p of the sum of [C] differences under random flips of their signs.

    Example:
        >>> round(sign_flip_p(np.ones(5)), 2)  # 2 of 2^5 flips lie as far and count half: 1 / 32
        0.03
        >>> sign_flip_p(np.array([1.0, -1.0]))
        1.0
    """
    total = by_cluster.sum()
    flipped = total - 2 * half_totals(by_cluster[:, None], flips, seed)[:, 0]
    rounding = ROUNDING * float(abs(by_cluster).sum())
    return _p(flipped, float(total), rounding, float((by_cluster**2).sum()))


def half_totals(table: Floats, flips: int, seed: int) -> Floats:
    """Return the totals [flips, K] of [C, K] clusters that are each picked with probability 1/2.

    Example:
        >>> totals = half_totals(np.ones((2, 1)), 9999, 0)
        >>> totals.shape, float(totals.max()), round(float(totals.mean()), 1)
        ((9999, 1), 2.0, 1.0)
    """
    rng, n = np.random.default_rng(seed), len(table)
    most, parts = max(1, AT_ONCE // n), []
    for count in [min(most, flips - done) for done in range(0, flips, most)]:
        bits = rng.integers(256, size=(count, -(-n // 8)), dtype=np.uint8)
        parts.append(np.unpackbits(bits, axis=1, count=n).astype(np.float64) @ table)
    return np.concatenate(parts)


def among_all_pairs(p: float, models: int) -> float:
    """Return a p-value of two out of `models` models, corrected for all pairs (Bonferroni).

    The leader is the best on these data: among equal models, another may be far behind by chance.

    Example:
        >>> round(among_all_pairs(0.01, 4), 4), among_all_pairs(0.5, 4)  # 6 pairs
        (0.06, 1.0)
    """
    return min(p * models * (models - 1) / 2, 1.0)


def detectable_among_all_pairs(detectable: float, models: int) -> float:
    """Return the detectable difference after this correction, given the uncorrected `detectable`.

    The level is 0.05, the power is 0.8, and the quantiles are normal.

    Example:
        >>> round(detectable_among_all_pairs(0.1, 2), 4)
        0.1
        >>> round(detectable_among_all_pairs(0.1, 4), 4)  # (2.638 + 0.842) / (1.960 + 0.842)
        0.1242
    """
    from scipy.special import ndtri  # noqa: PLC0415 - as above

    pairs, power = max(models * (models - 1) / 2, 1), ndtri(0.8)
    return float(detectable * (ndtri(1 - 0.025 / pairs) + power) / (ndtri(0.975) + power))


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted by the step-down rule of Holm (1979).

    Example:
        >>> [round(p, 4) for p in holm([0.01, 0.04, 0.03, 0.005])]  # 3 * 0.01, 2 * 0.03, 4 * 0.005
        [0.03, 0.06, 0.06, 0.02]
    """
    values = np.asarray(p, np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(value) for value in adjusted]


def _codes(a: Floats, b: Floats, clusters: NDArray[Any]) -> NDArray[np.intp]:
    """Return clusters numbered from 0, [N]. Raises ValueError for input that cannot be compared."""
    if a.shape != b.shape or a.ndim != 2 or not a.size or np.shape(clusters)[:1] != a.shape[1:]:
        shapes = ", ".join(str(list(np.shape(values))) for values in (a, b, clusters))
        raise ValueError(
            f"shapes {shapes}; the first two must be equal, with a cluster for each item"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("a number of an item is not finite")
    codes: NDArray[np.intp] = np.unique(clusters, return_inverse=True)[1]
    return codes.reshape(np.shape(clusters))  # flat before NumPy 2


def _weigh(by_trial: Floats) -> Floats:
    """Weigh trials: the mean over items of the sum over trials becomes the mean of trial means."""
    trials, items = by_trial.shape
    present = (~np.isnan(by_trial)).sum(1, keepdims=True)
    parts: Floats = by_trial * (items / trials / present)
    return parts


def _of_trials(by_trial: Floats, codes: NDArray[np.intp]) -> Student | None:
    """Return `_student` of the mean of [T, N] differences, or None for one cluster."""
    value = float(np.nanmean(by_trial, 1).mean())
    sums = _cluster_sums(_weigh(by_trial - value).T, codes).T
    if sums.shape[1] == 1:
        return None
    # The mean of these over trials and clusters is the mean over items.
    return _student(value, *crossed_variance(sums * (sums.size / len(codes))))


def _student(value: float, variance: float, freedom: float) -> Student | None:
    """Return interval, p and detectable difference by Student's t; None if the variance is 0."""
    from scipy.special import stdtr  # noqa: PLC0415 - listings must not wait for it

    error = math.sqrt(variance)
    if error < ROUNDING:
        return None
    interval = plain_ends(value, error, student_quantile(freedom))
    p = 2 * float(stdtr(freedom, -abs(value) / error))
    return interval, p, _detectable(error, freedom)


def _around(
    value: float, error: float, freedom: float, clusters: int, most: float
) -> tuple[tuple[float, float], float]:
    """Return the interval of a difference of at most `most`, and the detectable difference.

    If the difference is the same in all clusters, both are from `unvaried`.
    """
    if error >= ROUNDING:
        ends = plain_ends(value, error, student_quantile(freedom))
        return ends, _detectable(error, freedom)
    _, error, ends = unvaried(value, clusters, -most, most)
    return ends, _detectable(error, math.inf)


def _detectable(error: float, freedom: float) -> float:
    """Return the smallest difference that is detected with a power of 0.8."""
    from scipy.special import stdtrit  # noqa: PLC0415 - as above

    return (student_quantile(freedom) + float(stdtrit(freedom, 0.8))) * error


def _whole(credit: Floats) -> bool:
    """Return whether all credits are 0 or 1."""
    return bool(((credit == 0) | (credit == 1)).all())


def _mcnemar(outcomes: Outcomes) -> float:
    """Return the two-sided mid-p of the wins among the items that are not ties.

    Outcomes as likely as the observed outcome count half (Fagerland, Lydersen, Laake 2013). If wins
    equal losses, p is 1; theirs is 1 minus half the probability of this outcome.
    """
    from scipy.special import bdtr  # noqa: PLC0415 - listings must not wait for it

    fewer, decided = min(outcomes[:2]), outcomes.wins + outcomes.losses
    less = float(bdtr(fewer - 1, decided, 0.5)) if fewer else 0.0
    return less + float(bdtr(fewer, decided, 0.5))


def _outcomes(by_item: Floats) -> Outcomes:
    wins, losses = int((by_item > ROUNDING).sum()), int((by_item < -ROUNDING).sum())
    return Outcomes(wins, losses, len(by_item) - wins - losses)


def _cluster_sums(table: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return the sums [C, K] over clusters of [N, K] values; NaN if a cluster has only NaN."""
    present = ~np.isnan(table)
    sums = [np.bincount(codes, column) for column in np.where(present, table, 0).T]
    counts = [np.bincount(codes, column) for column in present.T]
    return np.where(np.stack(counts, 1) > 0, np.stack(sums, 1), np.nan)


def _p(drawn: Floats, value: float, rounding: float, variance: float) -> float:
    """Return (k + 1) / (N + 1), where k of N draws are further from 0 than the observed value.

    Draws that are equally far count half, as in `_mcnemar`. If no draw is as far, return 2
    exp(-value^2 / variance / 2) if this is smaller: it bounds the probability that a sum of flipped
    signs is as far (Hoeffding 1963). For swapped corpora the bound is approximate.
    """
    if abs(value) <= rounding:
        return 1.0
    beyond = abs(drawn) - abs(value)
    further = float((beyond > rounding).sum() + (beyond >= -rounding).sum()) / 2
    p = (further + 1) / (len(drawn) + 1)
    return p if further or not variance else min(p, 2 * math.exp(-(value**2) / variance / 2))


def _notes(clusters: int) -> tuple[str, ...]:
    few = f"{counted(clusters, 'cluster')}, fewer than {FEW}: the interval and p are approximate"
    return (few,) * (clusters < FEW)
