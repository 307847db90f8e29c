"""Standard errors and 95 % intervals of scores. docs/statistics.md lists their coverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vlbench.errors import TooFewRows

Floats = NDArray[np.float64]

# Maps sums over items of statistics [..., S] to values [...]; NaN if a value is undefined.
Formula = Callable[[Floats], Floats]

# The ends of an interval from a value, its standard error and a quantile.
Ends = Callable[[float, float, float], tuple[float, float]]

# Standard normal quantile of 97.5 %.
Z95 = 1.959963984540054

# A standard error below this is the rounding of equal numbers.
ROUNDING = 1e-9

# The same threshold for sums that were stored as float32.
ROUNDING_OF_SUMS = 1e-7


class Estimate(NamedTuple):
    """A value, usually a fraction in [0, 1], with its standard error and 95 % interval."""

    value: float
    stderr: float
    ci95: tuple[float, float]


def wilson(successes: float, n: int) -> Estimate:
    """Return successes / n of independent items with Wilson's score interval (1927).

    Unlike in SciPy, successes need not be whole: an item tied among k candidates counts 1 / k. If
    all items are right, or all are wrong, the standard error is derived from the interval's width.
    Raises ValueError for no items and for more successes than items.

    Example:
        >>> estimate = wilson(8, 10)
        >>> [round(end, 3) for end in estimate.ci95], round(estimate.stderr, 4)  # sqrt(0.16 / 10)
        ([0.49, 0.943], 0.1265)
    """
    if n < 1 or not -ROUNDING <= successes <= n * (1 + ROUNDING):
        raise ValueError(
            f"{successes} successes of {n} items; it needs 0 <= successes <= n, n >= 1"
        )
    value = min(max(successes / n, 0.0), 1.0)
    low, high = _wilson_ends(value, n, Z95)
    stderr = math.sqrt(value * (1 - value) / n) or (high - low) / (2 * Z95)
    return Estimate(value, stderr, (low, high))


def _wilson_ends(value: float, n: float, quantile: float) -> tuple[float, float]:
    shrink = 1 + quantile**2 / n
    centre = (value + quantile**2 / (2 * n)) / shrink
    half = quantile / shrink * math.sqrt(value * (1 - value) / n + quantile**2 / (4 * n**2))
    # Rounding would make the ends differ from 0 and 1 by about 1e-18.
    return (
        max(centre - half, 0.0) if value > 0 else 0.0,
        min(centre + half, 1.0) if value < 1 else 1.0,
    )


def plain_ends(value: float, stderr: float, quantile: float) -> tuple[float, float]:
    """Return the ends of a symmetric interval.

    Example:
        >>> plain_ends(0.5, 0.125, 2.0)
        (0.25, 0.75)
    """
    return value - quantile * stderr, value + quantile * stderr


def fraction_ends(value: float, stderr: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's ends for the number of independent items that gives this standard error.

    Example:
        >>> ends = fraction_ends(0.5, 0.05, Z95)  # 0.5 * 0.5 / 0.05^2 = 100: as 50 of 100
        >>> [round(end, 4) for end in ends]
        [0.4038, 0.5962]
    """
    return _wilson_ends(value, value * (1 - value) / stderr**2, quantile)


def log_ends(value: float, stderr: float, quantile: float) -> tuple[float, float]:
    """Return the ends for a positive value, symmetric on the log scale (delta method).

    Example:
        >>> ends = log_ends(10.0, 10 * math.log(2), 1.0)  # by a factor of exp(log(2)) = 2
        >>> [round(end, 4) for end in ends]
        [5.0, 20.0]
    """
    factor = math.exp(quantile * stderr / value)
    return value / factor, value * factor


def fraction(value: float, variance: float, freedom: float, items: int) -> Estimate:
    """Return a mean in [0, 1] with a variance of `freedom` degrees of freedom.

    The interval is Wilson's with Student's quantile, for the effective number of items: the number
    of items divided by the design effect (Kish 1965; evaluated by Dean and Pagano 2015). If the
    variance is 0, it is Wilson's interval of `items` items.

    Example:
        >>> estimate = fraction(0.8, 0.8 * 0.2 / 10, math.inf, 10)  # as `wilson(8, 10)`
        >>> [round(end, 3) for end in estimate.ci95]
        [0.49, 0.943]
    """
    value = min(max(value, 0.0), 1.0)
    stderr = math.sqrt(variance)
    if stderr < ROUNDING_OF_SUMS or not 0 < value < 1:
        return wilson(value * items, items)
    return Estimate(value, stderr, fraction_ends(value, stderr, student_quantile(freedom)))


def student_quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's distribution.

    Example:
        >>> round(student_quantile(1), 3), round(student_quantile(10), 3)  # as in printed tables
        (12.706, 2.228)
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - planning a run must not wait for it

    return float(stdtrit(freedom, 0.975))


def unseen(n: int) -> float:
    """Return the largest fraction of differing items, at 95 % confidence, if n items are all equal.

    It is 1 - .05^(1/n), about 3 / n (Hanley and Lippman-Hand 1983).

    Example:
        >>> round(unseen(100), 4)
        0.0295
        >>> round((1 - unseen(100)) ** 100, 4)  # all of 100 are equal this often
        0.05
    """
    return 1 - float(0.05 ** (1 / n))


def unvaried(value: float, n: int, least: float, greatest: float) -> Estimate:
    """Return the mean of n items that are all equal, with an interval within a range.

    The fraction `unseen` of all items may be at either end of the range. The standard error is
    derived from the interval's width.

    Example:
        >>> estimate = unvaried(0.5, 1, 0.0, 1.0)  # `unseen(1)` is 0.95
        >>> [round(end, 4) for end in estimate.ci95]  # 0.5 -+ 0.95 * 0.5
        [0.025, 0.975]
    """
    part = unseen(n)
    ends = (value - part * (value - least), value + part * (greatest - value))
    return Estimate(value, part * (greatest - least) / (2 * Z95), ends)


def clustered_fractions(totals: NDArray[Any], sizes: NDArray[Any]) -> list[Estimate]:
    """Return K means over items in clusters: the sums of [C, K] totals over the sum of [C] sizes.

    Variance and degrees of freedom are from `variance_of_ratios`, the interval is from `fraction`;
    if all clusters are equal, it is Wilson's with n = C. Clusters of size 0 are left out. Raises
    ValueError if no cluster has an item.

    Example:
        >>> totals, sizes = np.array([[2, 0], [1, 1]]), np.array([2, 2])
        >>> [estimate.value for estimate in clustered_fractions(totals, sizes)]  # 3 / 4 and 1 / 4
        [0.75, 0.25]
    """
    filled = sizes > 0
    totals, sizes = totals[filled].astype(np.float64), sizes[filled].astype(np.float64)
    n = len(sizes)
    if n == 0:
        raise ValueError("no cluster has an item")
    values, (variances, freedom) = totals.sum(0) / sizes.sum(), variance_of_ratios(totals, sizes)
    pairs = zip(values.tolist(), variances.tolist(), strict=True)
    return [fraction(value, variance, freedom, n) for value, variance in pairs]


def variance_of_ratios(totals: Floats, sizes: NDArray[Any]) -> tuple[Floats, float]:
    """Return the variances [K] of summed totals [C, K] / summed sizes [C] > 0, and their freedom.

    Each cluster is left out once; the variance of a single cluster is 0. The degrees of freedom are
    the effective number of clusters minus 1 (Carter, Schnepel and Steigerwald 2017, for a mean;
    Kish 1965): sum(sizes)^2 / sum(sizes^2) - 1, and at least 1. C equal clusters have C - 1.

    Example:
        >>> totals, sizes = np.array([[1.0], [0.0], [1.0], [0.0]]), np.ones(4)
        >>> variances, freedom = variance_of_ratios(totals, sizes)
        >>> variances.round(4).tolist(), round(freedom, 4)  # var / n = (1 / 3) / 4
        ([0.0833], 3.0)
    """
    n, sizes = len(sizes), sizes.astype(np.float64)
    if n == 1:
        return np.zeros(totals.shape[1]), 1.0
    less = (totals.sum(0) - totals) / (sizes.sum() - sizes)[:, None]
    variances: Floats = (n - 1) * less.var(0)
    return variances, max(float(sizes.sum() ** 2 / (sizes**2).sum()) - 1, 1.0)


def clustered_fraction(hits: NDArray[Any], counts: NDArray[Any]) -> Estimate:
    """Return sum(hits) / sum(counts) over [N] clusters, such as images.

    Example:
        >>> estimate = clustered_fraction(np.array([2, 1]), np.array([2, 2]))
        >>> estimate.value, round(estimate.stderr, 4)  # cluster means 1 and 0.5: sqrt(0.125 / 2)
        (0.75, 0.25)
    """
    return clustered_fractions(hits[:, None], counts)[0]


def clustered_mean(credit: NDArray[Any], clusters: ArrayLike) -> Estimate:
    """Return the mean of credits [N] in [0, 1] of items; `clusters` [N] name the cluster of each.

    Example:
        >>> estimate = clustered_mean(np.array([1, 1, 1, 0]), ["a", "a", "b", "b"])
        >>> estimate.value, round(estimate.stderr, 4)  # as in `clustered_fraction`
        (0.75, 0.25)
    """
    places = np.unique(clusters, return_inverse=True)[1].ravel()
    return clustered_fraction(np.bincount(places, credit), np.bincount(places))


def mean_of_trials(credit: NDArray[Any]) -> Estimate:
    """Return the mean of [trials, items] credits in [0, 1]; all trials have the same items.

    NaN is an item that a trial leaves out. All trials have equal weight. Trials and items are both
    random: the variance is `crossed_variance`, or var / items for a single trial. The interval is
    from `fraction`. Raises ValueError for no trials or no items.

    Example:
        >>> estimate = mean_of_trials(np.array([[0.0, 0.5], [0.5, 1.0]]))
        >>> estimate.value, round(estimate.stderr, 4)  # sqrt(0.125 / 2 + 0.125 / 2)
        (0.5, 0.3536)
    """
    if credit.ndim != 2 or credit.size == 0:
        raise ValueError(
            f"credit has shape {list(credit.shape)}; it must be [trials, items], not empty"
        )
    credit = credit[:, ~np.isnan(credit).all(0)].astype(np.float64)
    trials, items = credit.shape
    weights = items / (~np.isnan(credit)).sum(1, keepdims=True)
    value = float(np.nan_to_num(credit * weights).mean())
    if items == 1:
        return wilson(value, 1)
    parts = (credit - value) * weights
    variance, freedom = crossed_variance(parts) if trials > 1 else variance_of_mean(parts[0])
    return fraction(value, variance, freedom, items)


def mean_of_seeds(credit: NDArray[Any]) -> Estimate:
    """Return `mean_of_trials` of [seeds, items] credits; a single seed has Wilson's interval.

    Example:
        >>> estimate = mean_of_seeds(np.array([[1, 1, 1, 1, 1, 1, 1, 1, 0, 0]]))
        >>> [round(end, 3) for end in estimate.ci95]  # as `wilson(8, 10)`
        [0.49, 0.943]
    """
    return mean_of_trials(credit) if len(credit) > 1 else wilson(float(credit.sum()), credit.size)


def crossed_variance(parts: Floats) -> tuple[float, float]:
    """Return the variance about 0 of the mean of [T, C] parts with two crossed random effects.

    It is var(trials) / T + var(clusters) / C (ddof 1) minus the residual variance, which both terms
    contain; and at least the larger of the two terms. If much of the variance is residual, as in
    differences of two models, counting it twice would make intervals too wide. The degrees of
    freedom are Satterthwaite's (1946) for two components: the trials, which are few, and the rest.
    NaN adds nothing to its trial and cluster.

    Example:
        >>> parts = np.array([[-0.5, 0.0], [0.0, 0.5]])  # means of trials and of clusters: -+ 0.25
        >>> variance, freedom = crossed_variance(parts)
        >>> round(variance, 4), round(freedom, 4)  # 0.125 / 2 + 0.125 / 2; no variance within
        (0.125, 2.0)
    """
    first, trials = variance_of_mean(np.nansum(parts, 1) / parts.shape[1])
    second, clusters = variance_of_mean(np.nansum(parts, 0) / parts.shape[0])
    centres = np.nanmean(parts, 1, keepdims=True) + np.nanmean(parts, 0) - np.nanmean(parts)
    count = int((~np.isnan(parts)).sum())
    freedom = count - trials - clusters - 1
    within = float(np.nansum((parts - centres) ** 2)) / parts.size**2
    both = within * count / freedom if freedom > 0 else 0.0
    variance = max(first + second - both, first, second)
    terms = first**2 / trials + (variance - first) ** 2 / clusters
    return variance, variance**2 / terms if terms else math.inf


def mean_over_pairs(credit: NDArray[Any], pairs: NDArray[np.intp]) -> Estimate:
    """Return the mean of credits in [0, 1] of items that each belong to two clusters.

    Credit is [N], or [T, N] in T trials; `pairs` [N, 2] are numbers of clusters from 0. The
    interval is from `fraction`.

    Example:
        >>> pairs = np.array([[0, 1], [0, 2], [1, 2]])
        >>> estimate = mean_over_pairs(np.array([1.0, 0.0, 0.5]), pairs)
        >>> estimate.value, round(estimate.stderr, 4)  # `variance_over_pairs`: sqrt(5 / 18)
        (0.5, 0.527)
    """
    by_trial = np.atleast_2d(np.asarray(credit, np.float64))
    value = float(by_trial.mean())
    return fraction(value, *variance_over_pairs(by_trial - value, pairs), int(pairs.max()) + 1)


def variance_over_pairs(parts: Floats, pairs: NDArray[np.intp]) -> tuple[float, float]:
    """Return the variance about 0 of the mean of [T, N] parts, each in two of C clusters.

    For example, an analogy belongs to two word pairs, and so depends on all analogies that share
    one of them. The variance is the jackknife's, which leaves out each cluster with all its items,
    minus the variance between pairs of clusters, which the jackknife counts twice (Fafchamps and
    Gubert 2007); it is at least the latter, and has C - 1 degrees of freedom. The variance of the
    trials is added.

    Example:
        >>> parts, pairs = np.array([[0.5, -0.5, 0.0]]), np.array([[0, 1], [0, 2], [1, 2]])
        >>> variance, freedom = variance_over_pairs(parts, pairs)
        >>> round(variance, 4), round(freedom, 4)  # 2 / 3 * (0.25 + 0.25) - (0.25 + 0.25) / 9
        (0.2778, 2.0)
    """
    by_item, count = parts.mean(0), int(pairs.max()) + 1
    sums = np.bincount(pairs.ravel(), np.repeat(by_item, 2), count)
    others = len(by_item) - np.bincount(pairs.ravel(), minlength=count)
    both = np.unique(np.sort(pairs, 1), axis=0, return_inverse=True)[1].ravel()
    between = float((np.bincount(both, by_item) ** 2).sum()) / len(by_item) ** 2
    clusters = max(jackknife_variance(-sums / np.maximum(others, 1)) - between, between)
    trials, freedom = variance_of_mean(parts.mean(1)) if len(parts) > 1 else (0.0, 1)
    variance = clusters + trials
    terms = clusters**2 / (count - 1) + trials**2 / freedom
    return variance, variance**2 / terms if terms else math.inf


def variance_of_mean(values: Floats) -> tuple[float, int]:
    """Return the variance of the mean of values, ddof 1, and its degrees of freedom.

    Example:
        >>> variance, freedom = variance_of_mean(np.array([1.0, 2.0, 3.0]))
        >>> round(variance, 4), freedom  # 1 / 3
        (0.3333, 2)
    """
    return float(values.var(ddof=1)) / len(values), len(values) - 1


def jackknife_variance(less: Floats) -> float:
    """Return the variance of a score from its values without each of C clusters (Efron 1981).

    Example:
        >>> less = np.array([2.5, 2.0, 1.5])  # the mean of 1, 2 and 3 without each
        >>> round(jackknife_variance(less), 4)  # 2 / 3 * 0.5, as `variance_of_mean` has it
        0.3333
    """
    n = len(less)
    return (n - 1) / n * float(((less - less.mean()) ** 2).sum())


def clustered_ratio(parts: NDArray[Any], wholes: NDArray[Any]) -> Estimate:
    """Return sum(parts) / sum(wholes) over [N] clusters: a mean, or a paired difference of means.

    Standard error and interval are from `estimate_of_sums`. Raises ValueError if `wholes` sum to 0.

    Example:
        >>> estimate = clustered_ratio(np.array([1, 0, 1, 0]), np.ones(4))
        >>> estimate.value, round(estimate.stderr, 4)  # sqrt((1 / 3) / 4)
        (0.5, 0.2887)
        >>> [round(end, 3) for end in estimate.ci95]  # 0.5 -+ 3.182 * 0.2887
        [-0.419, 1.419]
    """
    if not len(wholes) or wholes.sum() <= 0:
        raise ValueError(f"the ratio is undefined: the counts of {len(wholes)} clusters sum to 0")
    return estimate_of_sums(np.stack([parts, wholes], 1), ratio)


def fraction_of_sums(parts: NDArray[Any], wholes: NDArray[Any]) -> Estimate:
    """Return sum(parts) / sum(wholes) in [0, 1] over [N] clusters, such as F1, which is no mean.

    The standard error is that of `clustered_ratio`; the ends of the interval are from
    `fraction_ends`, since a symmetric interval is too narrow for few clusters.

    Example:
        >>> estimate = fraction_of_sums(np.array([2, 0, 2, 0]), np.array([2, 1, 2, 1]))  # F1 2 / 3
        >>> round(estimate.value, 4), [round(end, 3) for end in estimate.ci95]
        (0.6667, [0.112, 0.969])
    """
    return estimate_of_sums(np.stack([parts, wholes], 1), ratio, ends=fraction_ends)


def fraction_over_seeds(hits: NDArray[Any], counts: NDArray[Any]) -> Estimate:
    """Return sum(hits) / sum(counts) in [0, 1] of [seeds, N] clusters; both are random.

    The interval is from `estimate_of_sums`, with the ends of `fraction_ends`; for a single seed or
    cluster, it is from `clustered_fraction`.

    Example:
        >>> estimate = fraction_over_seeds(np.array([[2, 1]]), np.array([[2, 2]]))
        >>> estimate.value, round(estimate.stderr, 4)  # as in `clustered_fraction`
        (0.75, 0.25)
    """
    sums = np.stack([hits.mean(0), counts.mean(0)], 1)
    if min(hits.shape) == 1:
        return clustered_fraction(*sums.T)
    by_seed = (hits.sum(1) / counts.sum(1)).tolist()
    return estimate_of_sums(sums, ratio, by_seed=by_seed, ends=fraction_ends)


def ratio(sums: Floats) -> Floats:
    """Return the first of two sums [..., 2] divided by the second, such as a mean; NaN for x / 0.

    Example:
        >>> ratio(np.array([[3.0, 4.0], [1.0, 0.0]])).tolist()
        [0.75, nan]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = sums[..., 0] / sums[..., 1]
    return np.where(sums[..., 1] > 0, quotient, np.nan)


def estimate_of_sums(
    statistics: Floats,
    formula: Formula,
    *,
    by_seed: Sequence[float] = (),
    ends: Ends = plain_ends,
) -> Estimate:
    """Return a formula of the sums over N clusters of [N, S] statistics, such as a mean or BLEU.

    The variance is the jackknife's, which leaves out each cluster once. For a mean of several
    seeds, the variance of the scores per seed (ddof 1) / their number is added. The interval uses
    Student's t with the degrees of freedom of Welch (1947) and Satterthwaite (1946). If nothing
    varies, its width is 0, which the row widens. Clusters whose statistics are all 0 are left out.
    Raises TooFewRows for fewer than two clusters, and ValueError for statistics that are not
    finite.

    Example:
        >>> estimate = estimate_of_sums(np.array([[1, 1], [2, 3]]), ratio)
        >>> estimate.value, round(estimate.stderr, 4)  # with one left out, 1 or 2 / 3: sqrt(1 / 36)
        (0.75, 0.1667)
    """
    if len(statistics) < 2:
        raise TooFewRows(f"an interval needs 2 images or more, not {len(statistics)}")
    if not np.isfinite(statistics).all():
        raise ValueError("a statistic of an item is not finite")
    kept, total = statistics[statistics.any(1)], statistics.sum(0)
    value, less = float(formula(total)), formula(total - kept)
    # A score without its only cluster has no value.
    less = less[np.isfinite(less)]
    parts = [(jackknife_variance(less), len(less) - 1)] if len(less) > 1 else []
    parts += [variance_of_mean(np.asarray(by_seed))] if len(by_seed) > 1 else []
    varying = [part for part in parts if part[0] > ROUNDING**2]
    variance = sum(part for part, _ in varying)
    if not varying:
        n = max(len(less), 1)
        return wilson(value * n, n) if ends is fraction_ends else Estimate(value, 0, (value, value))
    freedom = variance**2 / sum(part**2 / n for part, n in varying)
    stderr = math.sqrt(variance)
    return Estimate(value, stderr, ends(value, stderr, student_quantile(freedom)))
