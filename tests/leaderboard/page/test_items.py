from dataclasses import replace

import pyarrow as pa
import pytest
from planted_boards import board, result, score

from vlbench.boards import save_artifacts
from vlbench.leaderboard.page.items import wrong_items
from vlbench.metrics.items import Answers, Examples, item_table

AT = {"shots": 5}


def row(folder, model, credit, chosen, **rest):
    examples = Examples(["x", "y", "z"], ["1", "2", "3"])
    items = item_table(examples, "accuracy", AT, credit, Answers(["cat", "dog"], chosen, [0, 0, 1]))
    artifacts = save_artifacts(folder, "t", model, {"items": items})
    return result(model, score(), artifacts=artifacts, **rest)


@pytest.fixture
def rows(tmp_path):
    return [
        row(tmp_path, "a", [[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [[0, 1, 1], [0, 1, 0]]),
        row(tmp_path, "b", [1.0, 0.0, 1.0], [0, 1, 1]),
    ]


def test_each_model_counts_once_with_its_mean_over_trials(tmp_path, rows):
    found, problems = wrong_items(tmp_path, board(*rows))
    told = [("y", "0", "cat", "dog (3)"), ("z", "75", "dog", "dog (2), cat (1)")]
    assert [(one.id, one.credit, one.target, one.predictions) for one in found] == told
    assert problems == []


def test_models_that_may_not_be_compared_do_not_count(tmp_path, rows):
    other = row(tmp_path, "c", [0.0, 0.0, 0.0], [1, 1, 0], comparable="b")
    found, _ = wrong_items(tmp_path, board(*rows, other))
    assert [one.models for one in found] == [2, 2]


def test_an_item_that_only_one_model_has_is_left_out(tmp_path, rows):
    items = item_table(Examples(["y"], ["2"]), "accuracy", AT, [0.0])
    artifacts = save_artifacts(tmp_path, "t", "c", {"items": items})
    found, _ = wrong_items(tmp_path, board(*rows, result("c", score(), artifacts=artifacts)))
    assert [one.id for one in found] == ["y"]


def test_items_that_cannot_be_read_are_named_and_the_rest_is_shown(tmp_path, rows):
    (tmp_path / rows[0].artifacts["items"]["file"]).unlink()
    found, problems = wrong_items(tmp_path, board(*rows))
    assert [one.models for one in found] == [1]
    assert problems == [
        f"a: {rows[0].artifacts['items']['file']} is absent; run the task again with --overwrite"
    ]


def test_a_board_without_items_has_none(tmp_path):
    assert wrong_items(tmp_path, board(result("a", score()))) == ([], [])


def test_items_of_other_scores_do_not_count(tmp_path):
    items = item_table(Examples(["y"], ["2"]), "accuracy", {"shots": 1}, [0.0])
    artifacts = save_artifacts(tmp_path, "t", "a", {"items": items})
    assert wrong_items(tmp_path, board(result("a", score(), artifacts=artifacts))) == ([], [])
    assert isinstance(items, pa.Table)


def test_where_lower_is_better_credit_is_what_went_wrong(tmp_path):
    attacked = row(tmp_path, "a", [1.0, 0.0, 1.0], [0, 1, 1])
    lower = replace(attacked, scores=[score(higher_is_better=False)])
    assert [one.id for one in wrong_items(tmp_path, board(lower))[0]] == ["x", "z"]
