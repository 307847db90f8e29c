import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from vlbench.metrics.agreement import agreement

INDICES = {
    "adjusted_rand": adjusted_rand_score,
    "normalized_mutual_information": normalized_mutual_info_score,
}


def labellings(n, k, rng, noise=0.4):
    """Return clusters and classes of n items: a fraction of the clusters are of any class."""
    label = rng.integers(k, size=n)
    other = rng.integers(k, size=n)
    return np.where(rng.random(n) < noise, other, label), label


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_both_indices_are_scikit_learns(k):
    clusters, label = labellings(150, k, np.random.default_rng(k))
    expected = {name: index(label, clusters) for name, index in INDICES.items()}
    found = {name: one.value for name, one in agreement(clusters, label).items()}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", INDICES)
def test_the_error_is_that_of_leaving_out_each_item_in_turn(name):
    clusters, label = labellings(60, 5, np.random.default_rng(0))
    kept = [np.delete(np.arange(60), i) for i in range(60)]
    less = np.array([INDICES[name](label[rows], clusters[rows]) for rows in kept])
    found = agreement(clusters, label)[name]
    assert found.stderr == pytest.approx(np.sqrt(59 * less.var()))
    half = 1.959964 * found.stderr
    assert found.ci95 == pytest.approx((found.value - half, found.value + half))


@pytest.mark.parametrize(("n", "k"), [(200, 3), (300, 20)])
def test_intervals_cover_the_mean_of_other_items_as_often_as_they_say(n, k):
    rng = np.random.default_rng(1)
    found = [agreement(*labellings(n, k, rng)) for _ in range(1000)]
    for name in INDICES:
        truth = np.mean([one[name].value for one in found])
        covered = np.mean([one[name].ci95[0] <= truth <= one[name].ci95[1] for one in found])
        assert 0.93 <= covered <= 0.97


def test_clusters_that_are_the_classes_have_no_spread():
    label = np.arange(30) % 3
    for value, stderr, ci95 in agreement((label + 1) % 3, label).values():
        assert (value, stderr, *ci95) == pytest.approx((1, 0, 1, 1))


def test_an_interval_stays_among_what_the_index_can_be():
    found = agreement(*labellings(12, 3, np.random.default_rng(2), noise=1.0))
    low, high = found["normalized_mutual_information"].ci95
    assert 0 == low < high <= 1


def test_a_single_item_agrees_with_itself():
    one = np.zeros(1, np.int64)
    assert {found[:2] for found in agreement(one, one).values()} == {(1.0, 0.0)}
