import numpy as np
import pyarrow as pa
import pytest
from planted_boards import result, score

from vlbench.boards.board import save_artifacts
from vlbench.boards.items import MOST, Item, answered, replies_of, score_items, worst, worst_items
from vlbench.boards.joins import items_of
from vlbench.errors import DataError, UnknownNameError
from vlbench.metrics.items import Answers, Examples, item_table, join_items

EXAMPLES = Examples(["x", "y", "z"], ["1", "2", "3"])


def model(credit, chosen, examples=EXAMPLES, right=(0, 0, 1)):
    table = item_table(
        examples, "accuracy", {"shots": 5}, credit, Answers(["cat", "dog"], chosen, right)
    )
    value = float(np.nanmean(np.atleast_2d(np.array(credit, float)), 1).mean())
    return answered(items_of("m", table, score(value)))


TRIALS = model([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [[0, 1, 1], [0, 1, 0]])
ONE = model([1.0, 0.0, 1.0], [0, 1, 1])


def test_each_model_counts_once_with_its_mean_over_trials():
    first, second = worst_items([TRIALS, ONE], lower=False)
    assert (first.id, first.credit, first.target, first.predictions) == (
        "y",
        0.0,
        "cat",
        {"dog": 3},
    )
    assert (second.id, second.credit, second.target) == ("z", 0.75, "dog")
    assert list(second.predictions.items()) == [("dog", 2), ("cat", 1)]
    assert (first.models, second.models) == (2, 2)


def test_an_item_that_only_one_model_has_is_left_out():
    other = model([0.0, 0.0], [1, 0], Examples(["y", "a"], ["2", "4"]), right=(0, 1))
    (found,) = worst_items([ONE, other], lower=False)
    assert (found.id, found.predictions) == ("y", {"dog": 2})


def test_the_order_of_a_models_items_changes_nothing():
    turned = model(
        [1.0, 1.0, 0.0], [1, 0, 1], Examples(["z", "x", "y"], ["3", "1", "2"]), (1, 0, 0)
    )
    assert worst_items([ONE, turned], lower=False) == worst_items([ONE, ONE], lower=False)


def test_where_lower_is_better_credit_is_what_went_wrong():
    assert [one.id for one in worst_items([ONE], lower=True)] == ["x", "z"]


@pytest.mark.parametrize("chosen", [[-1, -1, -1], [0, -1, 1]])
def test_a_tied_choice_predicts_nothing(chosen):
    (found,) = worst_items([model([1.0, 0.5, 1.0], chosen)], lower=False)
    assert (found.id, found.predictions) == ("y", {})


def test_only_the_worst_are_kept_and_equal_ones_by_id():
    ids = [f"{i:02}" for i in range(20)]
    many = model([0.5] * 20, [0] * 20, Examples(ids, ids), right=[0] * 20)
    assert [one.id for one in worst_items([many], lower=False)] == ids[:MOST]


def test_without_models_and_without_a_wrong_item_there_are_none():
    assert worst_items([], lower=False) == []
    assert worst_items([model([1.0, 1.0, 1.0], [0, 0, 1])], lower=False) == []


TWO = Examples(["a.jpg", "b.jpg"], ["1", "2"])
NAMES = ["cat", "dog"]
ONE_SHOT = item_table(
    TWO, "accuracy", {"shots": 1}, [[1, 0], [1, 0.5], [0, 0]],
    Answers(NAMES, [[0, 0], [0, -1], [1, 0]], [0, 1]),
)  # fmt: skip
TABLE = join_items([ONE_SHOT, item_table(TWO, "accuracy", {"shots": 5}, [1, 1])])


def test_an_item_has_its_mean_over_trials_and_what_was_said_most_often():
    assert score_items(TABLE, "accuracy", {"shots": 1}) == [
        Item("a.jpg", "1", pytest.approx(2 / 3), "cat", "cat", 2, 3),
        Item("b.jpg", "2", pytest.approx(1 / 6), "cat", "dog", 2, 3),
    ]


def test_an_item_without_answers_has_its_credit_alone():
    assert score_items(TABLE, "accuracy", {"shots": 5})[0] == Item("a.jpg", "1", 1.0, "", "", 0, 1)


def test_the_worst_come_first_and_those_with_full_credit_not_at_all():
    assert [item.id for item in worst(score_items(TABLE, "accuracy", {"shots": 1}))] == [
        "b.jpg", "a.jpg"
    ]  # fmt: skip
    assert worst(score_items(TABLE, "accuracy", {"shots": 5})) == []


def test_where_lower_is_better_the_most_credit_is_worst():
    items = score_items(TABLE, "accuracy", {"shots": 1})
    assert [item.id for item in worst(items, higher_is_better=False)] == ["a.jpg", "b.jpg"]


def test_a_score_without_items_is_named_with_those_that_have_some():
    with pytest.raises(UnknownNameError, match=r'no items of m at {}; there are .*"shots": 1'):
        score_items(TABLE, "m", {})


@pytest.mark.parametrize("change", [{"order": "1 x"}, {"order": "9"}, {"options": None}])
def test_a_table_of_replies_that_vlbench_did_not_write_is_refused_by_name(tmp_path, change):
    line = {"item": 0, "id": "a", "options": ["x", "y"], "order": "1 0", "target": "x"}
    line |= {"reply": "A", "characters": 1, "unread": "", "labels": "letters", **change}
    table = pa.Table.from_pylist([line])
    row = result("m", artifacts=save_artifacts(tmp_path, "t", "m", {"answers": table}))
    with pytest.raises(DataError, match=r"answers\.parquet is not a table of replies"):
        replies_of(tmp_path, row)
