import numpy as np
import pytest

from vlbench.metrics.best_of_halves import best_of_halves
from vlbench.metrics.intervals import fraction
from vlbench.metrics.items import Examples, groups_of


def test_each_half_has_the_candidate_that_is_best_on_the_other():
    groups = np.arange(40)
    first = best_of_halves(np.zeros((1, 1, 40)), groups).first
    credit = np.stack([first, ~first]).astype(float)[:, None]
    found = best_of_halves(credit, groups)
    assert found.chosen == (1, 0)
    assert found.estimate.value == 0
    assert first.sum() == 20


def test_a_group_is_in_one_half():
    groups = np.repeat(np.arange(10), 3)
    first = best_of_halves(np.zeros((2, 1, 30)), groups).first.reshape(10, 3)
    assert (first == first[:, :1]).all()
    assert first[:, 0].sum() == 5


def test_items_of_a_cluster_and_their_copies_elsewhere_are_one_group():
    examples = Examples([*"abcde"], ["1", "2", "2", "3", "4"], ["x", "x", "y", "z", "z"])
    assert groups_of(examples).tolist() == [0, 0, 0, 1, 1]


def test_samples_are_the_same_for_models_of_the_same_items():
    credit = np.random.default_rng(0).random((3, 4, 50))
    one, again, half = (best_of_halves(credit / by, np.arange(50)).samples for by in (1, 1, 2))
    assert np.array_equal(one, again)
    assert np.allclose(half, one / 2)


def test_trials_that_vary_widen_the_interval():
    steady = np.random.default_rng(0).integers(2, size=(2, 1, 200)).repeat(5, 1).astype(float)
    varied = np.clip(steady + np.array([-0.4, -0.2, 0, 0.2, 0.4])[:, None], 0, 1)
    first, second = (best_of_halves(one, np.arange(200)).estimate for one in (steady, varied))
    assert second.stderr > 1.3 * first.stderr


def test_without_a_choice_the_interval_is_that_of_a_mean_of_trials_over_clusters():
    rng, groups, trials = np.random.default_rng(1), np.repeat(np.arange(60), 3), 4
    shares = np.clip(rng.normal(0.5, 0.25, 60)[groups] + rng.normal(0, 0.1, (trials, 1)), 0, 1)
    credit = (rng.random((trials, 180)) < shares).astype(float)
    found = best_of_halves(credit[None], groups)
    value, by_cluster = credit.mean(), credit.reshape(trials, 60, 3).mean(2)
    of_items = by_cluster.mean(0).var(ddof=1) / 60
    of_trials = by_cluster.mean(1).var(ddof=1) / trials
    centres = by_cluster.mean(1, keepdims=True) + by_cluster.mean(0) - value
    within = ((by_cluster - centres) ** 2).sum() / (3 * 59) / (trials * 60)
    among = max(of_items + of_trials - within, of_items, of_trials) - of_items
    assert among > 0.2 * of_items
    # The bootstrap of 1,000 samples has a standard error of 4.5 % of the variance.
    assert found.estimate.stderr**2 == pytest.approx(of_items + among, rel=0.15)
    assert found.samples.var() == pytest.approx(found.estimate.stderr**2, rel=0.15)
    chosen, variance = found.estimate.stderr**2 - among, found.estimate.stderr**2
    freedom = variance**2 / (chosen**2 / 59 + among**2 / (trials - 1))
    half = fraction(value, variance, freedom, 60)
    assert found.estimate.ci95 == pytest.approx(half.ci95)


def test_one_group_is_refused():
    with pytest.raises(ValueError, match="one group of items has no halves"):
        best_of_halves(np.zeros((2, 1, 3)), np.zeros(3, int))
