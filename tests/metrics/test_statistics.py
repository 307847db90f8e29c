import math

import numpy as np
import pytest
from scipy.stats import binomtest

from vlbench.metrics.statistics import mean_of_trials, wilson


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (0, 10), (7, 10), (10, 10), (123, 4567)])
def test_wilson_is_scipys(successes, n):
    expected = binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson(successes, n).ci95 == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_standard_error_of_a_share_is_the_binomial_one():
    assert wilson(20, 100).stderr == pytest.approx(0.04)


def test_half_a_success_lies_between_none_and_one():
    low, half, one = (wilson(successes, 4) for successes in (0, 0.5, 1))
    assert half.value == 0.125
    assert low.ci95[1] < half.ci95[1] < one.ci95[1]


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 2), (math.nan, 2)])
def test_a_share_that_cannot_be_is_refused(successes, n):
    with pytest.raises(ValueError, match=r"successes of \d items; wanted 0 <= successes <= n"):
        wilson(successes, n)


def test_rounding_above_the_whole_is_the_whole():
    assert wilson(10 + 1e-12, 10).value == 1.0


def test_trials_and_items_both_add_to_the_standard_error():
    # trial means 3/4 and 1/4, variance 1/8, over 2 trials: 1/16
    # item means 1, 1/2, 1/2, 0, variance 1/6, over 4 items: 1/24
    estimate = mean_of_trials(np.array([[1, 1, 1, 0], [1, 0, 0, 0]]))
    assert estimate.value == 0.5
    assert estimate.stderr == pytest.approx(math.sqrt(1 / 16 + 1 / 24))


def test_the_interval_is_1_96_standard_errors_to_each_side():
    # 50 of 100 items: variance 25/99, over 100 items: stderr 0.0502519
    estimate = mean_of_trials(np.array([[1, 0] * 50]))
    assert estimate.ci95 == pytest.approx((0.4015081, 0.5984919), abs=1e-6)


def test_the_interval_stays_between_nothing_and_everything():
    assert mean_of_trials(np.array([[1, 1, 1, 0], [1, 0, 0, 0]])).ci95 == (0.0, 1.0)


def test_one_trial_has_the_spread_of_its_items_alone():
    # share 1/4 of 4 items: variance 1/4, ddof 1, over 4 items
    assert mean_of_trials(np.array([[1, 0, 0, 0]])).stderr == pytest.approx(0.25)


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_where_nothing_varies_the_interval_is_wilsons(share):
    estimate = mean_of_trials(np.full((3, 50), share))
    expected = binomtest(round(share * 50), 50).proportion_ci(method="wilson")
    assert estimate.ci95 == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_one_item_has_wilsons_interval():
    assert mean_of_trials(np.array([[1.0], [0.0]])) == wilson(0.5, 1)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,)])
def test_no_trials_or_no_items_are_refused(shape):
    with pytest.raises(ValueError, match=r"credit has shape \[.*\]; wanted \[trials, items\]"):
        mean_of_trials(np.zeros(shape))
