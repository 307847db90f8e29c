import math
from itertools import product
from time import perf_counter

import numpy as np
import pytest
from scipy.stats import (
    binom,
    binomtest,
    bootstrap,
    kstest,
    norm,
    permutation_test,
    t,
    ttest_1samp,
    ttest_rel,
)

from vlbench.metrics import paired
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.paired import (
    among_all_pairs,
    compare_corpora,
    compare_items,
    detectable_among_all_pairs,
    half_totals,
    holm,
    sign_flip_p,
)

# The largest distance of 500 uniform values from uniform that one of 1,000 such tests exceeds.
FARTHEST = 1.95 / math.sqrt(500)
BLEU = CORPORA["bleu_2"].formula


def alone(n):
    return np.arange(n)


def lies(p):
    """Return how far p-values are from uniform."""
    return kstest(p, "uniform").statistic


def test_differences_wins_losses_and_ties_are_counted():
    found = compare_items([1, 1, 0, 0.5], [0, 1, 1, 0.5], alone(4))
    assert (found.difference, found.items, found.clusters) == (0, 4, 4)
    assert found.outcomes == (1, 1, 2)


# Twice the orders of wins and losses with fewer of the rarer, and once those with as many, of all.
# The first is the paper's own: 1 child became responsive and 7 were no longer, p .039 (exact .070).
@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(1, 7, 10 / 256), (5, 1, 8 / 64), (8, 2, 67 / 1024), (0, 3, 1 / 8), (4, 4, 1), (0, 0, 1)],
)
def test_a_hand_worked_mid_p_of_mcnemar(wins, losses, p):
    assert compare_items(*decided(wins, losses)).p == pytest.approx(p)


@pytest.mark.parametrize(("wins", "losses"), [(3, 9), (31, 17), (0, 12), (520, 480)])
def test_mid_p_of_mcnemar_is_the_exact_one_less_half_of_the_ties(wins, losses):
    ties = 2 * binom(wins + losses, 0.5).pmf(wins)
    expected = binomtest(wins, wins + losses).pvalue - ties / 2
    assert compare_items(*decided(wins, losses)).p == pytest.approx(expected)


def decided(wins, losses):
    a, b = (np.repeat(credit, [wins, losses, 30]) for credit in ([1, 0, 1], [0, 1, 1]))
    return a, b, alone(len(a))


@pytest.mark.parametrize("n", [12, 60])
def test_p_of_fractions_is_that_of_scipys_permutations(n):
    rng = np.random.default_rng(n)
    a, b = rng.random((2, n))
    a += 0.8 / n**0.5
    theirs = permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis), permutation_type="samples",
        vectorized=True, n_resamples=9999, rng=1,
    )  # fmt: skip
    assert 0.005 < theirs.pvalue < 0.8
    assert compare_items(a, b, alone(n)).p == pytest.approx(theirs.pvalue, abs=0.02)


def test_the_interval_is_that_of_scipys_bootstrap():
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 300))
    theirs = bootstrap((a - b,), np.mean, n_resamples=4000, method="percentile", rng=1)
    found = compare_items(a, b, alone(300)).ci95
    assert found == pytest.approx(tuple(theirs.confidence_interval), abs=0.008)


def test_clusters_are_flipped_whole():
    # Differences of the clusters 3, 1, -1: sums 5, 3, 3, 1 and their negatives are as likely. Of
    # these 8, 2 lie further from 0 than 3; 4 lie as far, and count half.
    a = np.array([1, 1, 1, 1, 0, 1])
    b = np.array([0, 0, 0, 0, 1, 1])
    found = compare_items(a, b, np.array([0, 0, 0, 1, 2, 2]))
    assert found.p == pytest.approx(4 / 8, abs=0.02)
    assert (found.difference, found.clusters) == (0.5, 3)


def test_a_hand_worked_interval_of_clusters():
    # Two clusters: of 3 items, all won, and of 1 item, lost. Without the first the difference is
    # -1, without the second 1: a variance of (1^2 + 1^2) / 2. Student's quantile of 1 degree is
    # 12.7062.
    found = compare_items([1, 1, 1, 0], [0, 0, 0, 1], np.array([7, 7, 7, 9]))
    assert found.difference == 0.5
    assert found.ci95 == pytest.approx((0.5 - 12.7062, 0.5 + 12.7062), abs=1e-4)
    assert found.notes == ("2 clusters, fewer than 20: the interval and p are approximate",)


def test_items_that_share_a_cluster_count_as_one_and_one_trial_is_no_mean_of_trials():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 100))
    assert compare_items(a[None], b[None], alone(100)) == compare_items(a, b, alone(100))
    lone = compare_items(a / 2, b / 2, alone(100))
    twice = compare_items(np.repeat(a, 2), np.repeat(b, 2), np.repeat(alone(100), 2))
    assert np.ptp(twice.ci95) == pytest.approx(2 * np.ptp(lone.ci95))
    assert twice.p == lone.p


def test_equal_models_are_not_told_apart():
    found = compare_items(np.ones(30), np.ones(30), alone(30))
    assert (found.difference, found.p, found.notes) == (0, 1, ())
    # Of 30 that are tied, .095 may be decided either way: .905^30 = .05. What is detectable is
    # (1.960 + .842) / 1.960 of that.
    assert found.ci95 == pytest.approx((-0.0950, 0.0950), abs=1e-4)
    assert found.detectable == pytest.approx(0.0950 * 2.8016 / 1.96, abs=1e-4)


def test_a_model_that_is_better_everywhere_may_be_worse_where_nobody_looked():
    found = compare_items(np.ones(30), np.zeros(30), alone(30))
    assert found.ci95 == pytest.approx((1 - 2 * 0.0950, 1), abs=1e-4)
    # Credits beyond 1 may differ by as much.
    found = compare_items(np.full(30, 4.0), np.full(30, 4.0), alone(30))
    assert found.ci95 == pytest.approx((-4 * 0.0950, 4 * 0.0950), abs=1e-3)


def test_the_other_order_turns_everything_round():
    rng = np.random.default_rng(3)
    a, b = rng.random((2, 4, 50))
    there, back = compare_items(a, b, alone(50)), compare_items(b, a, alone(50))
    assert (back.difference, back.p) == pytest.approx((-there.difference, there.p))
    assert back.ci95 == pytest.approx((-there.ci95[1], -there.ci95[0]))
    assert back.outcomes == (there.outcomes.losses, there.outcomes.wins, there.outcomes.ties)


def test_trials_that_agree_have_the_t_test_of_their_items():
    a, b = np.random.default_rng(1).random((2, 40))
    found = compare_items(np.tile(a, (5, 1)), np.tile(b, (5, 1)), alone(40))
    theirs = ttest_rel(a, b)
    assert found.p == pytest.approx(theirs.pvalue)
    assert found.ci95 == pytest.approx(tuple(theirs.confidence_interval()))


def test_items_that_agree_have_the_t_test_of_their_trials():
    by_trial = np.array([[0.3], [0.1], [0.2], [0.25]])
    found = compare_items(np.tile(by_trial, (1, 30)), np.zeros((4, 30)), alone(30))
    theirs = ttest_1samp(by_trial[:, 0], 0)
    assert found.p == pytest.approx(theirs.pvalue)
    assert found.ci95 == pytest.approx(tuple(theirs.confidence_interval()))


# Trials +-1, items +-1 about a mean of 1, and within +-1/2: of mean squares 4, 4, 1, each over 4
# numbers, 1 + 1 - 1/4 with 1.75^2 / (1 + (3/4)^2) degrees. Within +-2: 1 + 1 - 4 is less than 1.
@pytest.mark.parametrize(
    ("d", "variance", "freedom"),
    [([[3.5, 0.5], [0.5, -0.5]], 1.75, 1.75**2 / 1.5625), ([[5, -1], [-1, 1]], 1, 1)],
)
def test_the_variance_within_is_counted_once(d, variance, freedom):
    found = compare_items(d, np.zeros((2, 2)), alone(2))
    assert found.p == pytest.approx(2 * t.sf(1 / variance**0.5, freedom))
    assert found.ci95[0] == pytest.approx(1 - t.ppf(0.975, freedom) * variance**0.5)


def test_items_of_two_clusters_have_the_t_test_of_their_jackknife():
    # The case of test_intervals: differences of 1, 0, 0, a variance of 4/9 - 2/27, two degrees.
    pairs = np.array([[0, 1], [2, 0], [1, 2]])
    found = compare_items([1, 1, 0], [0, 1, 0], pairs)
    error = math.sqrt(4 / 9 - 2 / 27)
    assert found.p == pytest.approx(2 * t.sf(1 / 3 / error, 2))
    assert found.ci95[0] == pytest.approx(1 / 3 - t.ppf(0.975, 2) * error)
    assert (found.items, found.clusters) == (3, 3)


def test_items_of_two_clusters_that_differ_alike_are_flipped():
    found = compare_items([1, 1, 1], [1, 1, 1], np.array([[0, 1], [2, 0], [1, 2]]))
    assert (found.difference, found.p) == (0, 1)
    assert found.ci95[0] < 0 < found.ci95[1]
    assert found.detectable > 0


def test_items_that_depend_on_each_other_have_the_t_test_of_halves_of_them():
    halves = np.array([0.3, 0.1, 0.2, 0.25])
    found = compare_items([1, 1, 0], [0, 1, 0], alone(3), halves=halves)
    error = halves.std(ddof=1)
    assert found.p == pytest.approx(2 * t.sf(1 / 3 / error, 3))
    assert found.ci95[1] == pytest.approx(1 / 3 + t.ppf(0.975, 3) * error)
    assert found.outcomes == (1, 0, 2)


def test_clusters_of_two_copies_change_no_comparison_of_trials():
    a, b = np.random.default_rng(4).random((2, 5, 30))
    lone = compare_items(a, b, alone(30))
    twice = compare_items(np.repeat(a, 2, 1), np.repeat(b, 2, 1), np.repeat(alone(30), 2))
    assert (twice.p, twice.ci95) == (pytest.approx(lone.p), pytest.approx(lone.ci95))


def test_trials_of_which_nothing_varies_are_flipped_by_item():
    found = compare_items(np.ones((3, 30)), np.zeros((3, 30)), alone(30))
    assert (found.difference, found.p) == (1, 2 * math.exp(-15))
    assert found.ci95 == pytest.approx((1 - 2 * (1 - 0.05 ** (1 / 30)), 1))


def test_p_is_uniform_for_lone_items_without_difference():
    d = np.random.default_rng(0).normal(size=(500, 40))
    p = [compare_items(one, 0 * one, alone(40), flips=999, seed=i).p for i, one in enumerate(d)]
    assert lies(p) < FARTHEST


def test_p_of_mcnemar_holds_its_level_without_difference():
    a, b = np.random.default_rng(0).integers(0, 2, (2, 2000, 50))
    p = np.array([compare_items(*pair, alone(50)).p for pair in zip(a, b, strict=True)])
    levels = np.array([0.01, 0.05, 0.2])
    assert [(p <= level).mean() for level in levels] == pytest.approx(levels, rel=0.25)


def test_p_is_uniform_for_clusters_without_difference():
    rng = np.random.default_rng(1)
    clusters = np.repeat(alone(30), rng.integers(1, 6, 30))
    d = rng.normal(size=(500, 30))[:, clusters] + 0.3 * rng.normal(size=(500, len(clusters)))
    p = [compare_items(one, 0 * one, clusters, flips=999, seed=i).p for i, one in enumerate(d)]
    assert lies(p) < FARTHEST


def credit_of_trials(rng, of_trials, of_items, trials=8, items=60, more=0.0):
    """Return [500, trials, items] rights of models whose trials, items and answers vary."""
    shape = (500, trials, items)
    trial, item = rng.normal(size=(500, trials, 1)), rng.normal(size=(500, 1, items))
    return of_trials * trial + of_items * item + more + rng.normal(size=shape) > 0


@pytest.mark.parametrize(("of_trials", "of_items"), [(0.3, 1), (1, 0.5), (0, 0.5)])
def test_p_is_uniform_for_means_of_trials_without_difference(of_trials, of_items):
    rng = np.random.default_rng(5)
    pair = [credit_of_trials(rng, of_trials, of_items) for _ in range(2)]
    p = [compare_items(a, b, alone(60)).p for a, b in zip(*pair, strict=True)]
    assert lies(p) < FARTHEST


def test_a_trial_that_leaves_items_out_counts_as_much_as_the_others():
    # Trials of 3, 1 and 2 items: (1 + 0 + 1) / 3 = 2/3, 1 and 1/2.
    a = np.array([[1, 0, 1], [math.nan, 1, math.nan], [1, 0, math.nan]])
    found = compare_items(a, np.where(np.isnan(a), math.nan, 0), alone(3))
    assert found.difference == pytest.approx((2 / 3 + 1 + 1 / 2) / 3)
    assert found.outcomes == (3, 0, 0)


def test_p_is_near_uniform_for_trials_that_leave_out_a_third_of_the_items():
    rng = np.random.default_rng(5)
    out = rng.random((500, 8, 60)) < np.array([0, *[1 / 3] * 7])[:, None]
    pair = [np.where(out, math.nan, credit_of_trials(rng, 0.2, 0.5)) for _ in range(2)]
    p = [compare_items(a, b, alone(60)).p for a, b in zip(*pair, strict=True)]
    assert lies(p) < FARTHEST


def test_a_planted_difference_of_means_of_trials_is_found():
    rng = np.random.default_rng(6)
    pair = [credit_of_trials(rng, 0.1, 0.5, more=more) for more in (0.5, 0)]
    found = [compare_items(a, b, alone(60)) for a, b in zip(*pair, strict=True)]
    assert np.mean([one.p < 0.05 for one in found]) > 0.9
    truth = np.mean([one.difference for one in found])
    assert 0.92 < np.mean([one.ci95[0] < truth < one.ci95[1] for one in found]) < 0.98


def captions(rng, right, images=40):
    """Return statistics of captions of 8 to 12 words whose n-grams are right so often."""
    words = rng.integers(8, 13, (*right.shape, images))
    guessed = np.stack([words - n for n in range(4)], -1)
    hits = rng.binomial(guessed, right[:, None, None] ** np.arange(1, 5))
    lengths = np.stack([words, rng.integers(8, 13, words.shape)], -1)
    return np.concatenate([hits, guessed, lengths], -1)


def test_p_is_uniform_for_corpus_scores_without_difference():
    rng = np.random.default_rng(7)
    pair = [captions(rng, np.full(500, 0.6)) for _ in range(2)]
    p = [compare_corpora(a, b, alone(40), BLEU, flips=999).p for a, b in zip(*pair, strict=True)]
    assert lies(p) < FARTHEST


def test_a_corpus_score_is_compared_as_every_swap_of_its_clusters_would():
    a, b = captions(np.random.default_rng(8), np.array([0.6, 0.5]), images=10)
    clusters = np.repeat(alone(5), 2)
    swaps = np.array(list(product([0, 1], repeat=5)))[:, clusters, None]
    swapped = BLEU((a + swaps * (b - a)).sum(1)) - BLEU((b - swaps * (b - a)).sum(1))
    found = compare_corpora(a, b, clusters, BLEU)
    assert found.difference == pytest.approx(swapped[0])
    beyond = abs(swapped) - abs(swapped[0])
    expected = ((beyond > 1e-12).mean() + (beyond >= -1e-12).mean()) / 2
    assert found.p == pytest.approx(expected, abs=0.02)
    assert (found.outcomes, found.items, found.clusters) == (None, 10, 5)


def test_the_interval_of_a_corpus_score_is_that_of_scipys_bootstrap():
    a, b = captions(np.random.default_rng(9), np.array([0.6, 0.5]), images=200)
    theirs = bootstrap(
        (alone(200),), lambda i, axis: BLEU(a[i].sum(axis - 1)) - BLEU(b[i].sum(axis - 1)),
        vectorized=True, n_resamples=4000, method="percentile", rng=1,
    )  # fmt: skip
    found = compare_corpora(a, b, alone(200), BLEU)
    assert found.ci95 == pytest.approx(tuple(theirs.confidence_interval), abs=0.008)
    assert found.p < 0.001
    assert found.detectable == pytest.approx(2.802 * theirs.standard_error, rel=0.08)


UNEQUAL = [([1], [1, 0], [0]), ([], [], []), ([1, 0], [1, 0], [0]), ([[[1]]], [[[1]]], [0])]
EMPTY = [[[1, math.nan], [0, math.nan]], [[1, 1], [math.nan] * 2]]
REFUSED = [
    *((given, "the first two must be equal, with a cluster for each item") for given in UNEQUAL),
    *(((x, x, alone(2)), "an item is in no trial, or a trial has no item") for x in EMPTY),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=range(len(REFUSED)))
def test_shapes_that_do_not_fit_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        compare_items(*given)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="a number of an item is not finite"):
        compare_items([1, bad], [1, 0], alone(2))
    with pytest.raises(ValueError, match="a number of an item is not finite"):
        compare_items([[1, bad], [0, 0]], [[1, 0], [0, 0]], alone(2))
    with pytest.raises(ValueError, match="a number of an item is not finite"):
        compare_corpora(np.zeros((2, 10)), np.full((2, 10), bad), alone(2), BLEU)


def test_holms_rule_is_worked_by_hand():
    # sorted .01 x 4, .02 x 3, .03 x 2, .9 x 1; never less than the one before
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.6, 0.7]) == [1, 1]
    assert holm([]) == []


def test_the_same_seed_gives_the_same_p():
    d = np.random.default_rng(0).normal(size=50) + 0.2
    assert sign_flip_p(d) == sign_flip_p(d)
    assert sign_flip_p(d) != sign_flip_p(d, seed=1)


def test_ten_thousand_items_take_less_than_a_second():
    a, b = np.random.default_rng(0).random((2, 10_000))
    begun = perf_counter()
    compare_items(a, b, alone(10_000))
    assert perf_counter() - begun < 5


def test_what_is_detectable_is_worked_by_hand():
    a, b = np.repeat([1, 0, 1], [30, 10, 60]), np.repeat([0, 1, 1], [30, 10, 60])
    error = math.sqrt((40 - 100 * 0.2**2) / 99 / 100)
    expected = (t.ppf(0.975, 99) + t.ppf(0.8, 99)) * error
    assert compare_items(a, b, alone(100)).detectable == pytest.approx(expected)


def test_what_is_detectable_by_trials_that_agree_is_that_of_the_t_test():
    a = np.tile([3, 1, 4, 1, 5, 9.0], (4, 1))
    error = a[0].std(ddof=1) / math.sqrt(6)
    expected = (t(5).ppf(0.975) + t(5).ppf(0.8)) * error
    found = compare_items(a, np.zeros((4, 6)), alone(6))
    assert found.detectable == pytest.approx(expected)


def test_a_difference_that_is_detectable_is_found_four_times_of_five():
    pairs = np.random.default_rng(5).normal(0, 1, (300, 2, 100))
    size = np.mean([compare_items(a, b, alone(100), flips=9).detectable for a, b in pairs])
    found = [compare_items(a + size, b, alone(100), flips=999).p <= 0.05 for a, b in pairs]
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


def test_what_is_detectable_of_clusters_is_at_the_error_of_scipys_bootstrap():
    rng = np.random.default_rng(6)
    sizes, clusters = rng.integers(1, 5, 200), np.repeat(alone(200), 3)
    kept = np.tile(alone(3), 200) < sizes[clusters]
    difference = (rng.random(200)[clusters] - rng.random(600))[kept]
    sums = np.bincount(clusters[kept], difference), np.bincount(clusters[kept])
    theirs = bootstrap(
        (alone(200),), lambda i, axis: sums[0][i].sum(axis) / sums[1][i].sum(axis),
        vectorized=True, n_resamples=4000, method="percentile", rng=1,
    )  # fmt: skip
    found = compare_items(difference, 0 * difference, clusters[kept]).detectable
    assert found == pytest.approx(2.802 * theirs.standard_error, rel=0.05)


def test_far_in_the_tail_p_is_hoeffdings_bound():
    # All 40 signs agree in 2 of 2**40 flips, of which no sample has one.
    p = sign_flip_p(np.ones(40))
    assert 2 * 0.5**40 < p == 2 * math.exp(-20)
    assert sign_flip_p(np.ones(12), flips=999) >= 2 * 0.5**12


def test_the_leader_of_equal_models_leads_by_luck():
    rng = np.random.default_rng(0)
    wrong = sum(_calls_one_behind(rng, models=15) for _ in range(150))
    # 5 % of 150 draws would be 7.5; with Holm over the 14 comparisons with the leader it is 22.
    assert wrong <= 14


def _calls_one_behind(rng, models):
    """Return whether some of equally good models is called behind the best of the data."""
    credit = (rng.random((models, 60)) < rng.uniform(0.5, 0.9, 60)).astype(float)
    leader, *others = credit[np.argsort(-credit.mean(1), kind="stable")]
    p = [compare_items(leader, other, np.arange(60), flips=9).p for other in others]
    return min(among_all_pairs(one, models) for one in p) < 0.05


@pytest.mark.parametrize("models", [2, 3, 15])
def test_what_is_detectable_among_all_pairs_is_found_with_a_power_of_80_percent(models):
    # Of a standard error of 1.
    size = detectable_among_all_pairs(norm.ppf(0.975) + norm.ppf(0.8), models)
    draws = norm.rvs(size, size=20_000, random_state=0)
    p = 2 * norm.sf(abs(draws))
    found = np.mean([among_all_pairs(one, models) < 0.05 for one in p])
    assert found == pytest.approx(0.8, abs=0.01)


def test_every_choice_of_clusters_is_as_likely_and_made_a_portion_at_a_time(monkeypatch):
    monkeypatch.setattr(paired, "AT_ONCE", 64)
    assert half_totals(np.ones((200, 1)), 99, 0).shape == (99, 1)
    chosen = half_totals(np.array([[1.0], [2.0], [4.0]]), 8000, 0)
    assert np.unique(chosen, return_counts=True)[1] == pytest.approx(1000, abs=120)
