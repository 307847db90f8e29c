from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from vlbench.metrics.copies import counting_copies_once
from vlbench.metrics.intervals import wilson
from vlbench.metrics.items import Examples, item_table
from vlbench.results import Score

CREDIT = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1, 0])
N = len(CREDIT)


def measured(credit, digests, value_range=None):
    """Return the mean of the credit, with the error of independent items, and its items."""
    ids = [str(i) for i in range(len(credit))]
    value, stderr, ci95 = wilson(float(credit.sum()), len(credit))
    score = Score("accuracy", value, len(credit), stderr=stderr, ci95=ci95, range=value_range)
    return score, item_table(Examples(ids, digests), "accuracy", {}, credit)


def test_items_that_all_are_there_twice_have_the_error_of_one_half():
    score, items = measured(np.tile(CREDIT, 2), [*"abcdefghij"] * 2)
    found = counting_copies_once(score, items)
    within = 0.6 * 0.4
    # Leaving a group out in turn, its variance is p (1 - p) / (n - 1).
    variance = within / 20 + within / 9 - within / 19
    assert (found.value, found.n) == (score.value, N)
    assert found.stderr == pytest.approx(np.sqrt(variance))
    assert found.ci95[0] < wilson(6, N).ci95[0]
    assert found.ci95[1] > wilson(6, N).ci95[1]


def test_without_copies_a_score_stays_as_it_is():
    score, items = measured(CREDIT, [*"abcdefghij"])
    assert counting_copies_once(score, items) is score
    doubled, twice = measured(np.tile(CREDIT, 2), [*"abcdefghij"] * 2)
    by_halves = replace(doubled, halves=[0.5, 0.7])
    assert counting_copies_once(by_halves, twice) is by_halves
    other = replace(score, metric="without items")
    assert counting_copies_once(other, items) is other


def test_copies_that_are_all_right_have_wilsons_interval_of_those_that_differ():
    score, items = measured(np.ones(20), [*"abcdefghij"] * 2)
    assert counting_copies_once(score, items).ci95 == wilson(N, N).ci95


def test_a_mean_that_is_no_fraction_has_students_interval():
    score, items = measured(np.tile(CREDIT, 2), [*"abcdefghij"] * 2, (-1, 1))
    found = counting_copies_once(score, items)
    half = stats.t.ppf(0.975, N - 1) * found.stderr
    assert found.ci95 == pytest.approx((0.6 - half, 0.6 + half))
