import numpy as np
import pytest

from vlbench.metrics.best_of_halves import best_of_halves
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


def test_one_group_is_refused():
    with pytest.raises(ValueError, match="one group of items has no halves"):
        best_of_halves(np.zeros((2, 1, 3)), np.zeros(3, int))
