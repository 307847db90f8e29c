import pytest

from vlbench.errors import UnknownNameError
from vlbench.leaderboard.item_lists import Item, items_of, worst
from vlbench.metrics.items import Answers, Examples, item_table, join_items

TWO = Examples(["a.jpg", "b.jpg"], ["1", "2"])
NAMES = ["cat", "dog"]
ONE_SHOT = item_table(
    TWO, "accuracy", {"shots": 1}, [[1, 0], [1, 0.5], [0, 0]],
    Answers(NAMES, [[0, 0], [0, -1], [1, 0]], [0, 1]),
)  # fmt: skip
TABLE = join_items([ONE_SHOT, item_table(TWO, "accuracy", {"shots": 5}, [1, 1])])


def test_an_item_has_its_mean_over_trials_and_what_was_said_most_often():
    assert items_of(TABLE, "accuracy", {"shots": 1}) == [
        Item("a.jpg", "1", pytest.approx(2 / 3), "cat", "cat", 2, 3),
        Item("b.jpg", "2", pytest.approx(1 / 6), "cat", "dog", 2, 3),
    ]


def test_an_item_without_answers_has_its_credit_alone():
    assert items_of(TABLE, "accuracy", {"shots": 5})[0] == Item("a.jpg", "1", 1.0, "", "", 0, 1)


def test_the_worst_come_first_and_those_with_full_credit_not_at_all():
    assert [item.id for item in worst(items_of(TABLE, "accuracy", {"shots": 1}))] == [
        "b.jpg", "a.jpg"
    ]  # fmt: skip
    assert worst(items_of(TABLE, "accuracy", {"shots": 5})) == []


def test_where_lower_is_better_the_most_credit_is_worst():
    items = items_of(TABLE, "accuracy", {"shots": 1})
    assert [item.id for item in worst(items, higher_is_better=False)] == ["a.jpg", "b.jpg"]


def test_a_score_without_items_is_named_with_those_that_have_some():
    with pytest.raises(UnknownNameError, match=r'no items of m at {}; there are .*"shots": 1'):
        items_of(TABLE, "m", {})
