import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from scipy.stats import pearsonr

from vlbench.metrics import rdm_correlation as module
from vlbench.metrics.rdm_correlation import (
    class_draws,
    correlations,
    full_length,
    interval,
    noise_ceiling,
    permuted,
    redrawn,
    standardised,
)


def matrices(count=3, classes=12, seed=0):
    """Return condensed matrices [count, P] that share most of what is in them."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(classes, 5))
    noise = 0.5 * rng.normal(size=(count, *points.shape))
    return np.stack([pdist(points + each) for each in noise])


def table(*found):
    return standardised(found, len(found))


def in_draws(found, draws):
    """Return the correlations in each draw, [draws, K, K]."""
    return np.concatenate(list(redrawn(table(*found), draws)), axis=1)


def by_pairs(pair, draws):
    """Return SciPy's correlation in each draw; a class with itself is no pair."""
    first, second = (squareform(one) for one in pair)
    found = []
    for draw in draws:
        classes = np.repeat(np.arange(len(first)), draw.astype(int))
        i, j = (classes[side] for side in np.triu_indices(len(classes), 1))
        found.append(pearsonr(first[i, j][i != j], second[i, j][i != j]).statistic)
    return np.array(found)


def test_a_matrix_correlates_with_itself_at_one():
    assert correlations(table(*matrices())).diagonal().tolist() == pytest.approx([1.0] * 3)


def test_correlations_are_scipys():
    a, b, _ = matrices(classes=100)  # more pairs than are multiplied at a time
    assert correlations(table(a, b))[0, 1] == pytest.approx(pearsonr(a, b).statistic, abs=1e-12)


def test_a_class_permuted_copy_correlates_at_about_zero():
    matrix = squareform(matrices(1, classes=200)[0])
    order = np.random.default_rng(1).permutation(200)
    copy = squareform(matrix[np.ix_(order, order)])
    assert abs(correlations(table(squareform(matrix), copy))[0, 1]) < 0.05


def test_a_constant_matrix_correlates_with_nothing():
    both = [matrices(1)[0], np.full(66, 0.3)]
    assert correlations(table(*both))[0, 1] == 0.0
    assert not in_draws(both, class_draws(12, seed=0, draws=5))[:, 0, 1].any()


def test_rounding_does_not_make_a_constant_matrix_vary():
    assert not table(np.array([0.3, 0.3 + 1e-9, 0.3])).any()


def test_drawing_each_class_once_gives_the_correlation_itself():
    found = in_draws(matrices(), np.ones((1, 12)))[0]
    assert found == pytest.approx(correlations(table(*matrices())))


def test_a_draw_is_the_correlation_over_its_pairs_of_different_classes(monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 1)  # a model at a time
    both, draws = matrices(2), class_draws(12, seed=4, draws=3)
    assert in_draws(both, draws)[:, 0, 1] == pytest.approx(by_pairs(both, draws))


def test_draws_of_many_classes_are_spread_as_those_pair_by_pair():
    both, draws = matrices(2, classes=120), class_draws(120, seed=4, draws=200)
    found, exact = in_draws(both, draws)[:, 0, 1], by_pairs(both, draws)
    assert found.std() == pytest.approx(exact.std(), rel=0.03)
    assert found.mean() == pytest.approx(exact.mean(), abs=0.1 * exact.std())
    assert np.corrcoef(found, exact)[0, 1] > 0.98


def test_a_draw_of_one_class_alone_has_no_pairs_and_no_correlation():
    draws = np.array([[12.0] + [0.0] * 11])
    assert not in_draws(matrices(2), draws).any()


def test_draws_have_as_many_classes_as_there_are():
    assert (class_draws(12, seed=0).sum(1) == 12).all()
    assert (class_draws(12, seed=0) != class_draws(12, seed=1)).any()


def test_an_interval_is_where_the_middle_of_draws_lies():
    found = interval(np.linspace(0, 1, 1001))
    assert found.ci95 == pytest.approx((0.025, 0.975))
    assert found.stderr == pytest.approx(12**-0.5, rel=1e-2)


def test_related_matrices_beat_their_permutations_and_others_do_not():
    a, b, _ = matrices(classes=40)
    (other,) = matrices(1, classes=40, seed=1)
    floors = permuted(table(a, b, other), seed=0)
    values = correlations(table(a, b, other))
    assert values[0, 1] > 2 * floors[0, 1]
    assert values[0, 2] < 2 * floors[0, 2]
    assert floors == pytest.approx(floors.T)


def test_a_floor_is_the_quantile_of_permutations_one_by_one():
    both = matrices(2)
    rng, found = np.random.default_rng(7), []
    for _ in range(20):
        order = rng.permutation(12)
        a, b = ([m, squareform(squareform(m)[np.ix_(order, order)])] for m in both)
        found += [pearsonr(a[0], b[1]).statistic, pearsonr(b[0], a[1]).statistic]
    floor = permuted(table(*both), seed=7, count=20)[0, 1]
    assert floor == pytest.approx(np.quantile(found, 0.95))


def measurements(noise, count, entries=20_000, seed=0):
    """Return measurements [count, P] of a true matrix, whose errors have the deviation `noise`."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=entries) + noise * rng.normal(size=(count, entries))


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_the_reliability_of_a_whole_is_how_well_two_wholes_correlate(noise):
    halves = measurements(noise, 4)
    wholes = halves[:2].mean(0), halves[2:].mean(0)
    found = full_length(pearsonr(*halves[:2]).statistic)
    assert found == pytest.approx(pearsonr(*wholes).statistic, abs=0.02)


@pytest.mark.parametrize(
    ("halves", "whole"), [(0, 0), (0.5, 2 / 3), (1, 1), (-0.5, -2 / 3), (-1, -1)]
)
def test_a_reliability_stays_within_its_range(halves, whole):
    assert full_length(halves) == pytest.approx(whole)


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_a_noise_ceiling_is_that_of_rsatoolbox_and_holds_the_true_matrix(noise):
    both = measurements(noise, 2)
    z = (both - both.mean(1, keepdims=True)) / both.std(1, keepdims=True)
    upper = np.mean([pearsonr(one, z.mean(0)).statistic for one in z])
    lower = np.mean([pearsonr(z[0], z[1]).statistic, pearsonr(z[1], z[0]).statistic])
    assert noise_ceiling(lower) == pytest.approx((lower, upper))
    true = measurements(0.0, 1)[0]
    assert lower < pearsonr(both[0], true).statistic < upper


def test_a_matrix_that_is_all_noise_may_seem_to_correlate_with_a_half_of_what_it_is():
    assert noise_ceiling(-0.2) == pytest.approx((0.0, 0.5**0.5))
