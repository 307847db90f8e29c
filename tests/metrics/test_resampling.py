import numpy as np
import pytest

from vlbench.metrics import resampling
from vlbench.metrics.resampling import picked, redrawn


def test_as_many_clusters_are_redrawn_as_there_are():
    drawn = redrawn(np.eye(7), 0)
    assert drawn.shape == (1000, 7)
    assert set(drawn.sum(1)) == {7}


def test_how_often_a_cluster_is_redrawn_is_binomial():
    drawn = redrawn(np.eye(50), 0)
    assert drawn.mean(0) == pytest.approx(1, abs=0.15)
    assert drawn.var() == pytest.approx(1 - 1 / 50, abs=0.03)


def test_every_choice_of_clusters_is_as_likely():
    chosen = picked(np.array([[1.0], [2.0], [4.0]]), 8000, 0)
    assert np.unique(chosen, return_counts=True)[1] == pytest.approx(1000, abs=120)


def test_many_draws_are_made_a_portion_at_a_time(monkeypatch):
    monkeypatch.setattr(resampling, "AT_ONCE", 64)
    resampling._kept_draws.cache_clear()
    assert redrawn(np.eye(7), 0).sum(1).tolist() == [7.0] * 1000
    assert picked(np.ones((200, 1)), 99, 0).shape == (99, 1)


def test_another_pair_over_the_same_clusters_needs_no_new_draws(monkeypatch):
    values = np.random.default_rng(0).random((9, 2))
    first = redrawn(values, 5)
    monkeypatch.setattr(resampling, "_drawn", None)
    assert np.array_equal(redrawn(2 * values, 5), 2 * first)
    with pytest.raises(TypeError):
        redrawn(values, 6)


@pytest.mark.parametrize("few", [0, 100])
def test_draws_are_numpys_whatever_they_are_kept_as(few, monkeypatch):
    monkeypatch.setattr(resampling, "FEW", few)
    resampling._kept_draws.cache_clear()
    values, rng = np.arange(5.0)[:, None], np.random.default_rng(3)
    drawn = rng.integers(5, size=(1000, 5))
    assert redrawn(values, 3)[:, 0].tolist() == drawn.sum(1).tolist()
    resampling._kept_draws.cache_clear()
