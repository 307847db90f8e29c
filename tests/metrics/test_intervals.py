import math

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap, ttest_ind

from vlbench.metrics import intervals
from vlbench.metrics.intervals import (
    clustered_fraction,
    clustered_fractions,
    clustered_ratio,
    estimate_of_sums,
    mean_of_trials,
    ratio,
    redrawn,
    wilson,
)


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (0, 10), (7, 10), (10, 10), (123, 4567)])
def test_wilson_is_scipys(successes, n):
    expected = binomtest(successes, n).proportion_ci(method="wilson")
    assert wilson(successes, n).ci95 == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilsons_ends_of_none_and_all_are_exact():
    for n in range(1, 300):
        assert wilson(0, n).ci95[0] == 0.0
        assert wilson(n, n).ci95[1] == 1.0


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


def test_the_interval_is_that_of_welchs_t_test_of_trial_means_and_item_means():
    credit = np.random.default_rng(0).random((10, 40)) ** 2
    found = mean_of_trials(credit)
    welch = ttest_ind(credit.mean(1), credit.mean(0), equal_var=False).confidence_interval()
    assert found.ci95 == pytest.approx((found.value + welch.low, found.value + welch.high))


def test_one_trial_has_students_interval_with_the_degrees_of_freedom_of_its_items():
    # 50 of 100 items: variance 25/99, over 100 items: stderr 0.0502519; t of 99 degrees: 1.984217
    estimate = mean_of_trials(np.array([[1, 0] * 50]))
    assert estimate.ci95 == pytest.approx((0.4002893, 0.5997107), abs=1e-6)


def test_trials_that_all_agree_have_the_degrees_of_freedom_of_the_items():
    assert mean_of_trials(np.array([[1, 0] * 50] * 10)) == mean_of_trials(np.array([[1, 0] * 50]))


def few_shot_credit(shots, trials, rng, classes=5, width=8, items=200):
    """Return credits [trials, items] of nearest class means among planted normal classes."""
    centres = 1.5 * np.eye(classes, width)
    noise = rng.normal(size=(trials, classes, width)) / shots**0.5
    label = rng.integers(classes, size=items)
    queries = centres[label] + rng.normal(size=(items, width))
    means = centres + noise
    nearness = 2 * queries @ means.transpose(0, 2, 1) - (means**2).sum(2)[:, None]
    return nearness.argmax(2) == label


# With 1.96 standard errors, 96, 95 and 91 %.
@pytest.mark.parametrize(("shots", "trials"), [(1, 10), (5, 10), (1, 3)])
def test_the_interval_of_trials_covers_the_truth_as_often_as_it_says(shots, trials):
    rng = np.random.default_rng(shots)
    found = [mean_of_trials(few_shot_credit(shots, trials, rng)) for _ in range(1500)]
    truth = np.mean([one.value for one in found])
    covered = np.mean([one.ci95[0] <= truth <= one.ci95[1] for one in found])
    assert 0.93 <= covered <= 0.97


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


def test_a_share_over_clusters_is_spread_as_scipys_bootstrap_spreads_it():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 5, 200)
    hits = rng.binomial(counts, 0.7)
    found = clustered_fraction(hits, counts)
    theirs = bootstrap(
        (hits, counts), lambda h, c, axis: h.sum(axis) / c.sum(axis), paired=True, rng=1,
        n_resamples=4000, method="percentile",
    )  # fmt: skip
    assert found.value == hits.sum() / counts.sum()
    assert found.stderr == pytest.approx(theirs.standard_error, rel=0.1)
    assert found.ci95 == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)


def test_items_that_share_a_cluster_count_as_one():
    # Both items of a cluster are right or both are wrong: as sure as 100 items, not as 200.
    together = clustered_fraction(np.array([2, 0] * 50), np.full(100, 2))
    assert together.stderr == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize(("hits", "successes"), [(2, 10), (1, 5), (0, 0)])
def test_clusters_that_are_all_alike_have_wilsons_interval(hits, successes):
    found = clustered_fraction(np.full(10, hits), np.full(10, 2))
    assert found == wilson(successes, 10)


def test_a_paired_difference_may_be_negative_and_a_sure_one_has_no_spread():
    found = clustered_ratio(np.array([-1.0, 1.0, -1.0, -1.0]), np.full(4, 2))
    assert found.value == -0.25
    assert found.ci95[0] < -0.25 < found.ci95[1]
    assert clustered_ratio(np.zeros(4), np.full(4, 2)) == (0, 0, (0, 0))


def test_draws_whose_whole_is_nothing_are_left_out():
    found = clustered_ratio(np.array([1, 0, 0]), np.array([1, 0, 0]))
    assert found == (1, 0, (1, 1))


@pytest.mark.parametrize("n", [0, 3])
def test_a_share_of_nothing_is_refused(n):
    with pytest.raises(ValueError, match=f"no ratio: the counts of {n} clusters"):
        clustered_ratio(np.zeros(n), np.zeros(n))


def test_a_bootstrap_is_that_of_a_loop_over_draws():
    rng = np.random.default_rng(3)
    sizes = rng.integers(0, 5, 30)
    totals = rng.binomial(sizes[:, None], [0.2, 0.7])
    held = sizes > 0
    drawn = np.random.default_rng(0).multinomial(held.sum(), [1 / held.sum()] * held.sum(), 1000)
    for k, found in enumerate(clustered_fractions(totals, sizes)):
        shares = [(w * totals[held, k]).sum() / (w * sizes[held]).sum() for w in drawn]
        assert found.value == pytest.approx(totals[:, k].sum() / sizes.sum())
        assert found.stderr == pytest.approx(np.std(shares, ddof=1))
        assert found.ci95 == pytest.approx(tuple(np.percentile(shares, [2.5, 97.5])))


def test_a_bootstrap_of_lone_items_is_near_the_binomial_error():
    (found,) = clustered_fractions(np.repeat([[1.0], [0.0]], [300, 100], axis=0), np.ones(400))
    assert found.stderr == pytest.approx((0.75 * 0.25 / 400) ** 0.5, rel=0.1)


def test_clusters_that_agree_have_wilsons_interval_of_as_many_items():
    (found,) = clustered_fractions(np.full((10, 1), 2.0), np.full(10, 4))
    assert found == wilson(5, 10)


def test_no_items_have_no_fraction():
    with pytest.raises(ValueError, match="no cluster has an item"):
        clustered_fractions(np.zeros((2, 1)), np.zeros(2))


def test_as_many_clusters_are_redrawn_as_there_are():
    drawn = redrawn(np.eye(7), 0)
    assert drawn.shape == (1000, 7)
    assert set(drawn.sum(1)) == {7}


def test_how_often_a_cluster_is_redrawn_is_binomial():
    drawn = redrawn(np.eye(50), 0)
    assert drawn.mean(0) == pytest.approx(1, abs=0.15)
    assert drawn.var() == pytest.approx(1 - 1 / 50, abs=0.03)


def test_a_formula_of_sums_has_the_bootstrap_of_scipy():
    rows = np.random.default_rng(0).integers(1, 9, (60, 2)).astype(float)

    def of_sample(a, b, axis):
        return a.sum(axis) / b.sum(axis)

    wanted = bootstrap(tuple(rows.T), of_sample, paired=True, method="percentile", rng=0)
    found = estimate_of_sums(rows, ratio)
    assert found.value == rows[:, 0].sum() / rows[:, 1].sum()
    assert found.stderr == pytest.approx(wanted.standard_error, rel=0.1)
    assert found.ci95 == pytest.approx(wanted.confidence_interval, rel=0.03)


@pytest.mark.parametrize("rows", [[[1.0]], [[1.0], [np.nan]], np.empty((0, 1))])
def test_a_bootstrap_needs_two_items_of_finite_numbers(rows):
    with pytest.raises(ValueError, match=r"statistics of \d items; wanted two or more, all finite"):
        estimate_of_sums(np.array(rows), lambda sums: sums[..., 0])


def test_many_draws_are_made_a_portion_at_a_time(monkeypatch):
    monkeypatch.setattr(intervals, "AT_ONCE", 64)
    intervals._kept_draws.cache_clear()
    assert redrawn(np.eye(7), 0).sum(1).tolist() == [7.0] * 1000


def test_another_pair_over_the_same_clusters_needs_no_new_draws(monkeypatch):
    values = np.random.default_rng(0).random((9, 2))
    first = redrawn(values, 5)
    monkeypatch.setattr(intervals, "_draw_clusters", None)
    assert np.array_equal(redrawn(2 * values, 5), 2 * first)
    with pytest.raises(TypeError):
        redrawn(values, 6)


@pytest.mark.parametrize("few", [0, 100])
def test_draws_are_numpys_whatever_they_are_kept_as(few, monkeypatch):
    monkeypatch.setattr(intervals, "FEW", few)
    intervals._kept_draws.cache_clear()
    values, rng = np.arange(5.0)[:, None], np.random.default_rng(3)
    drawn = rng.integers(5, size=(1000, 5))
    assert redrawn(values, 3)[:, 0].tolist() == drawn.sum(1).tolist()
    intervals._kept_draws.cache_clear()
