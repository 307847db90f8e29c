import math

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap, norm, sem, ttest_1samp, ttest_ind
from scipy.stats import t as student

from vlbench.metrics.intervals import (
    clustered_fraction,
    clustered_fractions,
    clustered_ratio,
    estimate_of_sums,
    fraction_ends,
    log_ends,
    mean_of_trials,
    mean_over_pairs,
    unseen,
    variance_of_ratios,
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


@pytest.mark.parametrize("n", [1, 10, 600])
def test_the_error_of_a_fraction_that_does_not_vary_is_that_of_its_interval(n):
    for found in (wilson(0, n), wilson(n, n)):
        assert found.stderr == pytest.approx(np.ptp(found.ci95) / 2 / norm.ppf(0.975))


@pytest.mark.parametrize("n", [1, 3, 600])
def test_what_is_unseen_is_the_upper_limit_of_clopper_and_pearson(n):
    theirs = binomtest(0, n, alternative="less").proportion_ci(0.95, method="exact")
    assert unseen(n) == pytest.approx(theirs.high)


def test_a_share_has_the_binomial_error_and_half_a_success_lies_between_none_and_one():
    assert wilson(20, 100).stderr == pytest.approx(0.04)
    low, half, one = (wilson(successes, 4) for successes in (0, 0.5, 1))
    assert half.value == 0.125
    assert low.ci95[1] < half.ci95[1] < one.ci95[1]
    assert wilson(10 + 1e-12, 10).value == 1.0


def test_trials_and_items_both_add_to_the_standard_error():
    # trial means 3/4 and 1/4, variance 1/8, over 2 trials: 1/16
    # item means 1, 1/2, 1/2, 0, variance 1/6, over 4 items: 1/24
    # within, -1/4 and 1/4 for all but the last item, 3/4: 4 / 16 over 3 degrees, of 8 credits: 1/96
    estimate = mean_of_trials(np.array([[1, 1, 1, 0], [1, 0, 0, 0]]))
    assert estimate.value == 0.5
    assert estimate.stderr == pytest.approx(math.sqrt(1 / 16 + 1 / 24 - 1 / 48))


def test_one_trial_has_wilsons_interval_with_the_quantile_of_student():
    # 50 of 100 items: variance 25/99, over 100 items, as of 99 independent ones; t of 99: 1.984217
    estimate = mean_of_trials(np.array([[1, 0] * 50]))
    half = 1.984217 / (1 + 1.984217**2 / 99) * math.sqrt(0.25 / 99 + 1.984217**2 / (4 * 99**2))
    assert estimate.stderr == pytest.approx(0.0502519, abs=1e-6)
    assert estimate.ci95 == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)


def test_a_trial_may_leave_items_out():
    # Trials 1/2 and 1, variance 1/8. Of (credit - 3/4) 3/2, each trial having 2 of 3 items, the
    # items' sums by 2 are 3/16, -3/8 and 3/16, variance 27/256. Within has no degree of freedom.
    found = mean_of_trials(np.array([[1, 0, np.nan], [np.nan, 1, 1]]))
    assert found.value == 0.75
    assert found.stderr == pytest.approx(math.sqrt(1 / 8 / 2 + 27 / 256 / 3))
    credit = np.random.default_rng(0).integers(0, 2, (4, 30))
    absent = np.column_stack([credit, np.full(4, np.nan)])
    assert mean_of_trials(absent) == mean_of_trials(credit)


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


def test_the_interval_of_few_trials_and_items_is_wide_and_never_everything():
    low, high = mean_of_trials(np.array([[1, 1, 1, 0], [1, 0, 0, 0]])).ci95
    assert 0 < low < 0.2
    assert 0.8 < high < 1


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_where_nothing_varies_the_interval_is_wilsons(share):
    estimate = mean_of_trials(np.full((3, 50), share))
    assert estimate.ci95 == pytest.approx(wilson(round(share * 50), 50).ci95, abs=1e-9)
    assert mean_of_trials(np.array([[1.0], [0.0]])) == wilson(0.5, 1)


def test_the_variance_over_pairs_of_clusters_by_hand():
    # Without each of three clusters, one item is left: 0, 0 and 1, a jackknife variance of 4/9.
    # The items' own parts in the mean, 2/3, -1/3 and -1/3 by 3, are counted twice: less 2/27.
    pairs = np.array([[0, 1], [2, 0], [1, 2]])
    found = mean_over_pairs([1, 0, 0], pairs)
    assert found.stderr == pytest.approx(math.sqrt(4 / 9 - 2 / 27))
    t, n = 4.302653, 2 / 9 / found.stderr**2
    half = t / (1 + t**2 / n) * math.sqrt(2 / 9 / n + t**2 / (4 * n**2))
    assert found.ci95[1] - found.ci95[0] == pytest.approx(2 * half, rel=1e-6)


def test_trials_of_pairs_add_their_variance():
    pairs, credit = np.array([[0, 1], [2, 0], [1, 2]]), np.array([1, 0, 0])
    trials = np.stack([credit, 1 - credit])
    # Items that are half right in all: the trials' means 1/3 and 2/3, variance 1/18, by 2.
    assert mean_over_pairs(trials, pairs).stderr == pytest.approx(1 / 6)


def test_items_that_share_a_cluster_count_as_one():
    # Both items of a cluster are right or both are wrong: as sure as 100 items, not as 200.
    together = clustered_fraction(np.array([2, 0] * 50), np.full(100, 2))
    alone = mean_of_trials(np.array([[1, 0] * 50]))
    assert together.stderr == pytest.approx(alone.stderr)
    assert together.ci95 == pytest.approx(alone.ci95)


def test_the_error_over_clusters_by_hand():
    # Without each cluster: 3 / 4, 6 / 7, 5 / 7 and 4 / 6. The effective number of clusters is
    # 8^2 / (4^2 + 1 + 1 + 2^2).
    less = [3 / 4, 6 / 7, 5 / 7, 4 / 6]
    found = clustered_fraction(np.array([3, 0, 1, 2]), np.array([4, 1, 1, 2]))
    assert found.value == 0.75
    assert found.stderr == pytest.approx(math.sqrt(3 * np.var(less)))
    # As of so many independent items, with Student's quantile of 64 / 22 - 1 degrees.
    t, n = student.ppf(0.975, 64 / 22 - 1), 0.1875 / found.stderr**2
    centre, shrink = 0.75 + t**2 / (2 * n), 1 + t**2 / n
    half = t * math.sqrt(0.1875 / n + t**2 / (4 * n**2))
    assert found.ci95 == pytest.approx(((centre - half) / shrink, (centre + half) / shrink))


def test_the_error_over_even_clusters_is_that_of_their_mean():
    hits = np.random.default_rng(0).binomial(4, 0.7, 30)
    variances, freedom = variance_of_ratios(hits[:, None].astype(float), np.full(30, 4))
    assert variances[0] == pytest.approx(sem(hits / 4) ** 2)
    assert freedom == pytest.approx(29)


def test_the_error_over_clusters_is_near_that_of_scipys_bootstrap():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 5, 200)
    hits = rng.binomial(counts, 0.7)
    theirs = bootstrap(
        (hits, counts), lambda h, c, axis: h.sum(axis) / c.sum(axis), paired=True, rng=1,
        n_resamples=4000, method="BCa",
    )  # fmt: skip
    found = clustered_fraction(hits, counts)
    assert found.stderr == pytest.approx(theirs.standard_error, rel=0.05)
    assert found.ci95 == pytest.approx(tuple(theirs.confidence_interval), abs=0.005)


@pytest.mark.parametrize(("hits", "successes"), [(2, 10), (1, 5), (0, 0)])
def test_clusters_that_are_all_alike_have_wilsons_interval(hits, successes):
    assert clustered_fraction(np.full(10, hits), np.full(10, 2)) == wilson(successes, 10)
    (found,) = clustered_fractions(np.full((10, 1), 2.0 * hits), np.full(10, 4))
    assert found == wilson(successes, 10)


def test_a_paired_difference_may_be_negative_and_a_sure_one_has_no_spread():
    found = clustered_ratio(np.array([-1.0, 1.0, -1.0, -1.0]), np.full(4, 2))
    assert found.value == -0.25
    assert found.ci95[0] < -0.25 < found.ci95[1]
    assert clustered_ratio(np.zeros(4), np.full(4, 2)) == (0, 0, (0, 0))


def test_a_cluster_without_items_changes_nothing_and_one_alone_has_no_width():
    assert clustered_ratio(np.array([1, 0, 0]), np.array([1, 0, 0])) == (1, 0, (1, 1))
    few = clustered_ratio(np.array([1, 0, 3]), np.array([1, 1, 2]))
    assert clustered_ratio(np.array([1, 0, 3, 0]), np.array([1, 1, 2, 0])) == few


def test_several_fractions_are_those_of_each():
    rng = np.random.default_rng(3)
    sizes = rng.integers(0, 5, 30)
    totals = rng.binomial(sizes[:, None], [0.2, 0.7])
    for one, found in zip(totals.T, clustered_fractions(totals, sizes), strict=True):
        assert found.ci95 == pytest.approx(clustered_fraction(one, sizes).ci95)


SHARES, SHAPES = [(0, 0), (3, 2), (-1, 2), (math.nan, 2)], [(0, 3), (3, 0), (3,)]
SHARE = r"successes of \d items; it needs 0 <= successes <= n"
SHAPE = r"credit has shape \[.*\]; it must be \[trials, items\]"
REFUSED = [
    *((wilson, share, SHARE) for share in SHARES),
    *((mean_of_trials, [np.zeros(shape)], SHAPE) for shape in SHAPES),
    (clustered_ratio, [np.zeros(0)] * 2, "the ratio is undefined: the counts of 0 clusters"),
    (clustered_ratio, [np.zeros(3)] * 2, "the ratio is undefined: the counts of 3 clusters"),
    (clustered_fractions, [np.zeros((2, 1)), np.zeros(2)], "no cluster has an item"),
]


@pytest.mark.parametrize(("ask", "given", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_has_no_interval_is_refused(ask, given, message):
    with pytest.raises(ValueError, match=message):
        ask(*given)


def mean(sums):
    return sums[..., 0] / sums[..., 1]


def test_the_jackknife_of_a_mean_is_students_interval():
    values = np.random.default_rng(0).normal(3, 2, 12)
    found = estimate_of_sums(np.column_stack([values, np.ones(12)]), mean)
    theirs = ttest_1samp(values, 0).confidence_interval()
    assert found.stderr == pytest.approx(sem(values))
    assert found.ci95 == pytest.approx((theirs.low, theirs.high))


def test_the_jackknife_of_a_ratio_by_hand_to_which_equal_seeds_add_nothing():
    # 3 / 6 without the first, 5 / 6 without the second, 6 / 8 without the third: squares about
    # their mean 25/36 of 49, 25 and 4 (/ 1296), by 2/3
    rows = np.array([[4.0, 4], [2, 4], [1, 2]])
    found = estimate_of_sums(rows, mean)
    assert found.value == 0.7
    assert found.stderr == pytest.approx(math.sqrt(78 / 1296 * 2 / 3))
    assert estimate_of_sums(rows, mean, by_seed=[0.7] * 3) == found
    half = 4.302653 * found.stderr
    assert found.ci95 == pytest.approx((0.7 - half, 0.7 + half))


def test_seeds_add_their_variance_and_their_degrees_of_freedom():
    values, seeds = np.random.default_rng(0).normal(3, 2, 40), [2.0, 3.0, 4.0]
    rows = np.column_stack([values, np.ones(40)])
    found = estimate_of_sums(rows, mean, by_seed=seeds)
    by_item, by_seed = values.var(ddof=1) / 40, 1 / 3
    assert found.stderr == pytest.approx(math.sqrt(by_item + by_seed))
    welch = ttest_ind(values, seeds, equal_var=False).confidence_interval()
    assert found.ci95[1] - found.ci95[0] == pytest.approx(welch.high - welch.low)


def test_a_fraction_that_does_not_vary_has_wilsons_interval_of_the_clusters_that_count():
    rows = np.array([[1.0, 1.0]] * 5 + [[0.0, 0.0]])
    assert estimate_of_sums(rows, mean, ends=fraction_ends) == wilson(5, 5)


def test_on_the_scale_of_logarithms_both_ends_are_as_many_times_the_value():
    low, high = log_ends(20.0, 30.0, 2.0)
    assert (low, high) == pytest.approx((20 / math.exp(3), 20 * math.exp(3)))
