import numpy as np
import pytest

from vlbench.probes.captioning.preferences import preference


def test_the_higher_score_is_preferred_and_ties_share():
    found = preference(np.array([[1.0, 2.0, 3.0]]), np.array([[0.0, 2.0, 4.0], [1.0, 1.0, 1.0]]))
    assert found.credit.tolist() == [[1.0, 0.5, 0.0], [0.5, 1.0, 1.0]]
    assert found.chosen.tolist() == [[0, -1, 1], [-1, 0, 0]]
    assert found.ties == 2


def test_scores_of_a_saturated_head_are_tied():
    assert preference(np.array([[0.9999999]]), np.array([[1.0]])).ties == 1


def test_nan_is_no_win():
    with pytest.raises(ValueError, match="not finite"):
        preference(np.array([[np.nan]]), np.array([[0.0]]))
