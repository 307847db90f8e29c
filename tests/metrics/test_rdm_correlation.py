import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from scipy.stats import pearsonr

from vlbench.metrics.rdm_correlation import (
    class_draws,
    correlations,
    interval,
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


def test_a_matrix_correlates_with_itself_at_one():
    assert correlations(matrices()).diagonal().tolist() == pytest.approx([1.0] * 3)


def test_correlations_are_scipys():
    a, b, _ = matrices()
    assert correlations(np.stack([a, b]))[0, 1] == pytest.approx(pearsonr(a, b).statistic)


def test_a_class_permuted_copy_correlates_at_about_zero():
    matrix = squareform(matrices(1, classes=200)[0])
    order = np.random.default_rng(1).permutation(200)
    copy = squareform(matrix[np.ix_(order, order)])
    assert abs(correlations(np.stack([squareform(matrix), copy]))[0, 1]) < 0.05


def test_a_constant_matrix_correlates_with_nothing():
    both = np.stack([matrices(1)[0], np.full(66, 0.3)])
    assert correlations(both)[0, 1] == 0.0
    assert not redrawn(both, class_draws(12, seed=0, draws=5))[0, 1].any()


def test_rounding_does_not_make_a_constant_matrix_vary():
    assert not standardised(np.array([0.3, 0.3 + 1e-9, 0.3])).any()


def test_drawing_each_class_once_gives_the_correlation_itself():
    found = redrawn(matrices(), np.ones((1, 12)))[:, :, 0]
    assert found == pytest.approx(correlations(matrices()))


def test_a_draw_is_the_correlation_over_its_pairs_of_different_classes():
    both, draws = matrices(2), class_draws(12, seed=4, draws=3)
    square = [squareform(matrix) for matrix in both]
    for k, counts in enumerate(draws):
        drawn = np.repeat(np.arange(12), counts.astype(int))
        pairs = [(i, j) for x, i in enumerate(drawn) for j in drawn[:x] if i != j]
        a, b = ([matrix[pair] for pair in pairs] for matrix in square)
        assert redrawn(both, draws)[0, 1, k] == pytest.approx(pearsonr(a, b).statistic)


def test_a_draw_of_one_class_alone_has_no_pairs_and_no_correlation():
    draws = np.array([[12.0] + [0.0] * 11])
    assert not redrawn(matrices(2), draws).any()


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
    floors = permuted(np.stack([a, b, other]), seed=0)
    values = correlations(np.stack([a, b, other]))
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
    floor = permuted(both, seed=7, count=20)[0, 1]
    assert floor == pytest.approx(np.quantile(found, 0.95))
