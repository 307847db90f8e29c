"""Standard errors of scores whose items include copies: copies count as one item."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vlbench.metrics.intervals import (
    ROUNDING,
    fraction,
    plain_ends,
    student_quantile,
    variance_of_ratios,
)
from vlbench.metrics.items import BOTH, STATISTICS, credit_of, groups_of, of_score
from vlbench.results import Score


def counting_copies_once(score: Score, items: pa.Table) -> Score:
    """Return a mean over items with the standard error and interval of the distinct items.

    Items with equal digests are one group, and so are clusters that share a digest. The jackknife
    variance over groups minus the jackknife variance over clusters is added to the score's
    variance. The interval is from `fraction`, or Student's t, with the degrees of freedom of the
    groups. A score without items, standard error or copies is returned unchanged, as is a score
    with `halves`, which keep copies together.

    Example:
        >>> from vlbench.metrics.items import Examples, item_table
        >>> examples = Examples(["a", "b", "c", "d"], ["1", "2", "3", "3"])
        >>> score = Score("accuracy", 0.75, 4, stderr=0.25)  # sqrt(var / n) = sqrt((1 / 4) / 4)
        >>> once = counting_copies_once(score, item_table(examples, "accuracy", {}, [1, 0, 1, 1]))
        >>> once.n, round(once.stderr, 4)  # without a, b, or both copies: 2 / 3, 1, 1 / 2
        (3, 0.294)
    """
    own = of_score(items, score.metric, score.at)
    is_mean = STATISTICS.name not in own.column_names or own[STATISTICS.name].null_count == len(own)
    if score.stderr is None or score.halves or not len(own) or not is_mean:
        return score
    examples, by_trial = credit_of(own, score.metric, score.at)
    if any(BOTH in cluster for cluster in examples.clusters):
        return score
    clusters, groups = np.unique(examples.clusters, return_inverse=True)[1], groups_of(examples)
    count, distinct = int(clusters.max()) + 1, int(groups.max()) + 1
    if distinct == count:
        return score
    credit = np.nanmean(by_trial, 0)
    (more, freedom), (less, _) = (_variance(credit, of) for of in (groups, clusters))
    variance = score.stderr**2 + max(more - less, 0.0)
    if less < ROUNDING**2:  # nothing varies: the standard error depends only on the number of items
        variance *= count / distinct
    n = distinct if score.n == count else score.n
    if score.limits == (0, 1):
        _, stderr, interval = fraction(score.value, variance, freedom, distinct)
    else:
        stderr = math.sqrt(variance)
        interval = plain_ends(score.value, stderr, student_quantile(freedom))
    return replace(score, n=n, stderr=stderr, ci95=interval)


def _variance(credit: NDArray[np.float64], groups: NDArray[np.intp]) -> tuple[float, float]:
    totals = np.bincount(groups, credit).astype(np.float64)
    variances, freedom = variance_of_ratios(totals[:, None], np.bincount(groups))
    return float(variances[0]), freedom
