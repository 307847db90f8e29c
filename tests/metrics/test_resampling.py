import numpy as np
import pytest

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
    monkeypatch.setattr("vlbench.metrics.resampling.AT_ONCE", 64)
    assert redrawn(np.eye(7), 0).sum(1).tolist() == [7.0] * 1000
    assert picked(np.ones((200, 1)), 99, 0).shape == (99, 1)
