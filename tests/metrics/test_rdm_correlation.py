import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from scipy.stats import pearsonr

from vlbench.metrics import rdm_correlation as module
from vlbench.metrics.rdm_correlation import (
    correlations,
    full_length,
    jackknife,
    left_out,
    noise_ceiling,
    permuted,
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


def without(found, groups):
    """Return the correlations without each group, [G, K, K]."""
    return np.concatenate(list(left_out(table(*found), np.asarray(groups))), axis=1)


def by_classes(pair, groups):
    """Return SciPy's correlation without the classes of each group."""
    kept = [np.flatnonzero(groups != g) for g in range(max(groups) + 1)]
    squares = [squareform(one) for one in pair]
    return [pearsonr(*(squareform(m[np.ix_(k, k)]) for m in squares)).statistic for k in kept]


def test_correlations_are_scipys():
    a, b, _ = matrices(classes=100)  # more pairs than are multiplied at a time
    assert correlations(table(a, b)) == pytest.approx(np.corrcoef(a, b), abs=1e-12)
    assert correlations(table(a, b))[0, 1] == pytest.approx(pearsonr(a, b).statistic, abs=1e-12)


def test_a_constant_matrix_correlates_with_nothing_and_rounding_does_not_make_it_vary():
    both = [matrices(1)[0], np.full(66, 0.3)]
    assert correlations(table(*both))[0, 1] == 0.0
    assert not without(both, np.arange(12))[:, 0, 1].any()
    assert not table(np.array([0.3, 0.3 + 1e-9, 0.3])).any()
    # Nor is there a correlation without all classes but one.
    assert not without(matrices(2), [0] * 11 + [1])[0].any()


@pytest.mark.parametrize("groups", [np.arange(12), np.arange(12) % 5])
def test_without_a_group_the_correlation_is_over_the_other_classes(monkeypatch, groups):
    monkeypatch.setattr(module, "AT_ONCE", 1)  # a model at a time
    monkeypatch.setattr(module, "ROWS", 7)
    found = without(matrices(2), groups)[:, 0, 1]
    assert found == pytest.approx(by_classes(matrices(2), groups))


def test_the_interval_is_the_jackknifes_on_fishers_scale():
    # z of .2, .4 and .9 are .2027, .4236 and 1.4722, of variance (ddof 0) .30666, by G - 1 = 2: a
    # standard error of .78315. Student's 97.5 % quantile of 4 degrees is 2.77645.
    found = jackknife(np.array(0.5), np.array([0.2, 0.4, 0.9]))
    ends = np.tanh(np.arctanh(0.5) + 2.77645 * 0.78315 * np.array([-1, 1]))
    assert found.ci95 == pytest.approx(ends, abs=1e-4)
    assert found.stderr == pytest.approx((ends[1] - ends[0]) / 2 / 2.77645, abs=1e-4)


@pytest.mark.parametrize(("value", "low", "high"), [(1, 0.9, 1), (0, -0.05, 0.05), (-1, -1, -0.9)])
def test_a_correlation_that_no_class_changes_has_a_width_all_the_same(value, low, high):
    # Of 58.4 classes that agree, .05 may be otherwise: .95^58.4 = .05.
    found = jackknife(np.array(float(value)), np.full(58, float(value)))
    assert found.ci95 == pytest.approx((low, high), abs=1e-3)
    assert found.stderr > 0


def test_several_correlations_have_each_its_own_interval():
    less = np.random.default_rng(0).uniform(0.2, 0.4, (9, 2))
    one, other = (jackknife(np.array(0.3), column) for column in less.T)
    found = jackknife(np.full(2, 0.3), less)
    assert found.stderr == pytest.approx([one.stderr, other.stderr])
    assert found.ci95[1] == pytest.approx([one.ci95[1], other.ci95[1]])


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
    # A matrix that is all noise may seem to correlate with a half of what it is.
    assert noise_ceiling(-0.2) == pytest.approx((0.0, 0.5**0.5))
