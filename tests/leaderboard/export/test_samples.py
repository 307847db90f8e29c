import pyarrow as pa
import pytest
from planted_boards import result, score

from vlbench.boards import save_artifacts
from vlbench.errors import DataError
from vlbench.leaderboard.export.samples import Scores, sample_lines
from vlbench.metrics.items import Answers, Examples, item_table

AT = '{"shots": 5}'
EXAMPLES = Examples(["one.png", "two.png"], ["sha256:1", "sha256:2"])


def lines_of(folder, table, shown=None):
    saved = save_artifacts(folder, "t", "m", {"items": table})
    scores = Scores({"evaluation_id": "x"}, {("accuracy", AT): ("r", shown or score())})
    return list(sample_lines(folder, result("m", artifacts=saved), scores))


def items(credit, chosen=(0, 0)):
    answers = Answers(["cat", "dog"], chosen, [0, 1])
    return item_table(EXAMPLES, "accuracy", {"shots": 5}, credit, answers)


def test_an_item_has_its_id_answer_target_and_credit(tmp_path):
    first, second = lines_of(tmp_path, items([1.0, 0.0]))
    assert (first["sample_id"], first["evaluation_result_id"]) == ("one.png", "r")
    assert second["input"] == {"raw": "two.png sha256:2", "reference": ["dog"]}
    assert second["output"] == {"raw": ["cat"]}
    assert [one["evaluation"] for one in (first, second)] == [
        {"score": 1.0, "is_correct": True},
        {"score": 0.0, "is_correct": False},
    ]


def test_the_trials_of_an_item_are_one_record_with_the_mean(tmp_path):
    table = items([[1.0, 1.0], [1.0, 0.5]], chosen=[[0, 1], [0, -1]])
    first, second = lines_of(tmp_path, table)
    assert first["evaluation"] == {"score": 1.0, "is_correct": True}
    assert second["evaluation"] == {"score": 0.75, "is_correct": False}
    assert (first["output"]["raw"], second["output"]["raw"]) == (["cat", "cat"], ["dog"])


def test_where_lower_is_better_the_lowest_credit_is_right(tmp_path):
    found = lines_of(tmp_path, items([1.0, 0.0]), score(higher_is_better=False))
    assert [one["evaluation"]["is_correct"] for one in found] == [False, True]


def test_the_same_item_has_the_same_hash_whatever_the_answer(tmp_path):
    first = lines_of(tmp_path, items([1.0, 0.0]))
    again = lines_of(tmp_path, items([0.0, 1.0], chosen=[1, 1]))
    assert [one["sample_hash"] for one in first] == [one["sample_hash"] for one in again]
    assert first[0]["sample_hash"] != first[1]["sample_hash"]


def test_an_item_without_answer_and_target_has_neither(tmp_path):
    (found, _) = lines_of(tmp_path, item_table(EXAMPLES, "accuracy", {"shots": 5}, [1.0, 1.0]))
    assert (found["output"], found["input"]["reference"]) == ({"raw": []}, [])


def test_items_of_a_corpus_score_are_left_out(tmp_path):
    table = items([1.0, 0.0]).append_column(
        "statistics", pa.array([[1.0, 2.0], None], pa.list_(pa.float64()))
    )
    (found,) = lines_of(tmp_path, table)
    assert found["sample_id"] == "two.png"


def test_items_of_another_score_are_refused(tmp_path):
    table = item_table(EXAMPLES, "other", {"shots": 5}, [1.0, 0.0])
    with pytest.raises(DataError, match="a score that the row lacks: other at"):
        lines_of(tmp_path, table)


@pytest.mark.parametrize("strange", [float("nan"), float("inf"), None])
def test_credit_that_is_no_number_is_refused(tmp_path, strange):
    table = items([1.0, 0.0])
    place = table.column_names.index("credit")
    broken = table.set_column(place, "credit", pa.array([strange, 0.0], pa.float64()))
    with pytest.raises(DataError, match=r"items\.parquet has credit that is not finite"):
        lines_of(tmp_path, broken)


def test_a_table_without_credit_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"items\.parquet has no column credit"):
        lines_of(tmp_path, items([1.0, 0.0]).drop_columns(["credit"]))
