import numpy as np
import pyarrow as pa
import pytest

from vlbench.metrics.items import (
    SCHEMA,
    Answers,
    Examples,
    Measured,
    at_text,
    item_table,
    join_items,
    outcome_of,
)
from vlbench.results import Score

TWO = Examples(["a.jpg", "b.jpg"], ["sha256:1", "sha256:2"])
NAMES = ["cat", "dog"]


def test_each_example_has_a_row_with_what_was_said_and_what_was_right():
    table = item_table(TWO, "accuracy", {"shots": 5}, [1, 0], Answers(NAMES, [0, 0], [0, 1]))
    assert table.to_pylist()[1] == {
        "id": "b.jpg", "digest": "sha256:2", "cluster": None, "metric": "accuracy",
        "at": '{"shots": 5}', "trial": None, "credit": 0.0, "prediction": "cat", "target": "dog",
    }  # fmt: skip


def test_names_may_have_any_letters_and_regions_of_an_image_are_a_cluster():
    examples = Examples(["é.jpg", "", "猫.jpg"], ["1", "2", "3"], ["1", "1", "2"])
    table = item_table(examples, "accuracy", {}, [1, 0, 0])
    assert table["id"].to_pylist() == ["é.jpg", "", "猫.jpg"]
    assert table["cluster"].to_pylist() == ["1", "1", "2"]


def test_a_tied_choice_has_no_prediction():
    table = item_table(TWO, "accuracy", {}, [0.5, 0], Answers(NAMES, [-1, 0], [0, 1]))
    assert table["prediction"].to_pylist() == [None, "cat"]


def test_each_trial_has_its_own_rows():
    chosen = [[0, 1], [1, 1]]
    table = item_table(TWO, "accuracy", {}, [[1, 1], [0, 1]], Answers(NAMES, chosen, [0, 1]))
    assert table["trial"].to_pylist() == [0, 0, 1, 1]
    assert table["id"].to_pylist() == ["a.jpg", "b.jpg"] * 2
    assert table["prediction"].to_pylist() == ["cat", "dog", "dog", "dog"]


def test_an_example_that_a_trial_leaves_out_has_no_row_in_it():
    table = item_table(TWO, "accuracy", {}, [[1, np.nan], [np.nan, 0.5]])
    assert table.select(["id", "trial", "credit"]).to_pylist() == [
        {"id": "a.jpg", "trial": 0, "credit": 1.0},
        {"id": "b.jpg", "trial": 1, "credit": 0.5},
    ]


def test_examples_of_more_than_an_image_say_which_image_it_is_where_they_know():
    asked = Examples(["a/0", "b/1"], ["x", "y"], images=["1", "2"])
    table = item_table(asked.select([1]), "m", {}, [1])
    assert table.select(["digest", "image"]).to_pylist() == [{"digest": "y", "image": "2"}]
    joined = join_items([item_table(TWO, "n", {}, [1, 0]), table])
    assert joined["image"].to_pylist() == [None, None, "2"]


@pytest.mark.parametrize(
    ("examples", "credit", "why"),
    [
        (TWO, [1], r"credit of shape \[1\] for 2 items"),
        (TWO, [1, np.nan], "the credit of an item is not finite"),
        (TWO, [[1, np.inf]], "the credit of an item is not finite"),
        (Examples(["a", "a"], ["1", "2"]), [1, 1], "the id of an item occurs twice"),
    ],
)
def test_what_cannot_be_joined_is_refused(examples, credit, why):
    with pytest.raises(ValueError, match=why):
        item_table(examples, "m", {}, credit)


def test_an_outcome_has_all_scores_and_the_items_of_those_with_examples():
    half, bare = Score("a", 0.5, 2, {"shots": 5}), Score("b", 0.5, 2)
    answers = Answers(NAMES, [0, 0], [0, 1])
    measured = [Measured(half, TWO, [1, 0], answers), Measured(bare), Measured(bare, TWO, [0, 1])]
    found = outcome_of(measured, {"ties": 1}, ["a note"], {"table": pa.table({"x": [1]})})
    assert outcome_of([Measured(bare)]).items is None
    assert list(found.scores) == [half, bare, bare]
    assert (found.counts, found.notes) == ({"ties": 1}, ["a note"])
    assert list(found.artifacts) == ["table"]
    one = item_table(TWO, "a", {"shots": 5}, [1, 0], answers)
    assert found.items == join_items([one, item_table(TWO, "b", {}, [0, 1])])


def test_tables_of_several_scores_are_one():
    one, other = (item_table(TWO, name, {}, [1, 0]) for name in ("a", "b"))
    whole = join_items([one, other])
    assert whole.schema == SCHEMA
    assert whole["metric"].to_pylist() == ["a", "a", "b", "b"]
    assert isinstance(whole, pa.Table)
    assert join_items([]) is None


def test_conditions_are_a_text_whose_order_does_not_matter():
    assert at_text({"b": 1, "a": "ä"}) == at_text({"a": "ä", "b": 1}) == '{"a": "ä", "b": 1}'
