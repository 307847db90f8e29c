import pytest

from vlbench.leaderboard.comparison.leaders import UNPUBLISHED, Leaders
from vlbench.leaderboard.comparison.standing import standing


def words(tied=(), tested=("b", "c"), untested=()):
    """Return the standing of a, which leads, of b and of c."""
    p = {model: 0.5 if model in tied else 0.01 for model in tested}
    leaders = Leaders("a", tied, dict(untested), p)
    return [standing(model, leaders) for model in "abc"]


def test_a_leader_told_apart_from_all_is_the_best():
    assert words() == ["best", "behind", "behind"]


def test_a_leader_that_is_not_told_apart_from_one_only_leads():
    assert words(tied=["b"]) == ["leader", "tied", "behind"]


def test_a_leader_that_was_not_tested_against_one_only_leads():
    found = words(tested=["b"], untested=[("c", "its row keeps no items")])
    assert found == ["leader", "behind", "untested"]


def test_a_leader_without_a_rival_is_not_the_best():
    assert words(tested=[]) == ["leader", "", ""]


@pytest.mark.parametrize("why", UNPUBLISHED)
def test_a_row_that_is_not_published_takes_nothing_from_the_best(why):
    assert words(untested=[("random", why)]) == ["best", "behind", "behind"]


def test_without_a_comparison_nothing_is_known():
    assert standing("a", None) == ""
