import pytest

from vlbench.leaderboard.comparison.leaders import Leaders
from vlbench.leaderboard.export.standing import standings

RANKED = ["a", "b", "c"]


def leaders(leader="a", tied=(), tested=("b", "c"), untested=()):
    p = {model: 0.5 if model in tied else 0.01 for model in tested}
    return Leaders(leader, tied, dict.fromkeys(untested, "no items"), p)


def test_a_leader_told_apart_from_all_is_the_best():
    assert standings(leaders(), RANKED) == {"a": "best", "b": "behind", "c": "behind"}


def test_a_leader_that_is_not_told_apart_from_one_only_leads():
    found = standings(leaders(tied=["b"]), RANKED)
    assert found == {"a": "leader", "b": "tied", "c": "behind"}


def test_a_leader_that_was_not_tested_against_one_only_leads():
    found = standings(leaders(tested=["b"], untested=["c"]), RANKED)
    assert found == {"a": "leader", "b": "behind", "c": "untested"}


def test_a_leader_without_a_rival_is_not_the_best():
    assert standings(leaders(tested=[]), ["a"]) == {"a": "leader"}


def test_a_row_that_is_not_exported_takes_nothing_from_the_best():
    found = standings(leaders(untested=["random"]), RANKED)
    assert found == {"a": "best", "b": "behind", "c": "behind"}


@pytest.mark.parametrize("other", [None, leaders("b")])
def test_without_a_comparison_with_the_first_nothing_is_known(other):
    assert standings(other, RANKED) == {}
