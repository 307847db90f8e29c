import pytest
from scipy import stats

from vlbench.probes.captioning.captioner import Favourites
from vlbench.probes.captioning.training import history_table, training_part

ENTRY = {"steps": 5.0, "sampled_score": 0.1, "greedy_score": 0.2, "share_with_advantage": 0.5}


def found(share):
    return Favourites(["a dog"], [ENTRY], share, 60)


def test_the_share_of_advantages_is_a_mean_of_seeds_with_students_interval():
    part = training_part([found(0.4), found(0.5), found(0.6)])
    (score,) = part.scores
    assert (score.value, score.n, score.draws) == (0.5, 3, [0.4, 0.5, 0.6])
    error = stats.sem([0.4, 0.5, 0.6])
    assert score.stderr == pytest.approx(error)
    assert score.ci95[1] == pytest.approx(0.5 + stats.t.ppf(0.975, 2) * error)
    assert part.counts == {"scored_in_training": 180}


def test_one_seed_has_no_interval():
    (score,) = training_part([found(0.4)]).scores
    assert (score.value, score.stderr, score.ci95, score.draws) == (0.4, None, None, [])


def test_the_history_has_a_row_for_each_seed_and_entry():
    rows = history_table([found(0.4), found(0.5)]).to_pylist()
    assert rows == [{"seed": 0, **ENTRY}, {"seed": 1, **ENTRY}]
