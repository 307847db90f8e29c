from pathlib import Path

import pytest
from planted_boards import PRIMARY, board, counts, result, score, write

from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.errors import UnknownNameError
from vlbench.report.rows import (
    comparable_sets,
    named_boards,
    publishable,
    published,
    ranked,
    unpublished,
)


def test_complete_ok_rows_of_trained_models_are_publishable():
    rows = [result("b"), result("a")]
    assert publishable(rows) == {"a": rows[1], "b": rows[0]}


NOT_PUBLISHABLE = [
    {"status": "failed"},
    {"status": "skipped"},
    {"counts": counts(n=100, expected=101)},
    {"provenance": {"weights": "random:0"}},
]


@pytest.mark.parametrize("lacking", NOT_PUBLISHABLE)
def test_failed_skipped_partial_and_random_rows_are_not_publishable(lacking):
    assert publishable([result("m", **lacking)]) == {}


def test_a_model_with_two_rows_that_may_not_be_compared_has_none():
    rows = [result("m"), result("m", comparable="b"), result("other")]
    assert list(publishable(rows)) == ["other"]


def test_a_random_row_beside_one_of_trained_weights_does_not_count():
    random = result("m", comparable="b", provenance={"weights": "random:0"})
    assert list(publishable([result("m"), random])) == ["m"]


def test_a_row_without_provenance_or_counts_is_publishable():
    assert list(publishable([result("m", provenance={}, counts={})])) == ["m"]


NOT_PUBLISHED = [
    ({"status": "skipped", "reason": "no text"}, "skipped, no text"),
    ({"counts": counts(n=3, expected=9)}, "partial, 6 official rows absent"),
    ({"provenance": {"weights": "random:0"}}, "random weights"),
    ({}, ""),
]


@pytest.mark.parametrize(("lacking", "why"), NOT_PUBLISHED)
def test_a_row_that_is_not_published_says_why(lacking, why):
    assert unpublished(result("m", **lacking)) == why


def test_a_partial_row_without_a_count_says_so():
    row = result("a", score(), counts={"expected": 9})
    assert unpublished(row) == "partial, 9 official rows absent"


def test_rows_are_ranked_by_their_primary_score_and_those_without_one_come_last():
    rows = [
        result("bare"),
        result("b", score(0.5)),
        result("a", score(0.9)),
        result("c", score(0.5)),
    ]
    found = ranked(rows, PRIMARY)
    assert [row.model for row, _ in found] == ["a", "b", "c", "bare"]
    assert [one and one.value for _, one in found] == [0.9, 0.5, 0.5, None]


def test_where_lower_is_better_the_lowest_score_comes_first():
    rows = [result(m, score(v, higher_is_better=False)) for m, v in (("a", 0.9), ("b", 0.1))]
    assert [row.model for row, _ in ranked(rows, PRIMARY)] == ["b", "a"]


def test_only_ok_rows_stand_in_sets_of_comparable_rows():
    rows = [
        result("a", comparable="2"), result("b", status="failed"), result("c", comparable="1"),
        result("d", comparable="2"),
    ]  # fmt: skip
    sets = comparable_sets(rows)
    assert {key: [row.model for row in same] for key, same in sets.items()} == {
        "2": ["a", "d"], "1": ["c"]
    }  # fmt: skip


FIVE_SHOTS = {"model": "m", "metric": "accuracy", "value": 0.5, "where": "Table 1"}
FIVE_SHOTS |= {"at": {"shots": 5}}
BARE = {"model": "m", "metric": "clean_accuracy", "value": 0.76, "where": "section 2"}


def spec(*references):
    return TaskSpec("t", Path(), Document(Path("t.yaml"), {}, {}), reference=references)


def test_the_difference_is_ours_less_the_papers_in_our_standard_errors():
    found = published(spec(FIVE_SHOTS), "m", score(0.44, stderr=0.02))
    assert (found.value, found.where) == (0.5, "Table 1")
    assert (found.difference, found.in_stderr) == (pytest.approx(-0.06), pytest.approx(-3.0))


def test_a_reference_without_conditions_is_of_the_score_without_conditions():
    found = published(spec(FIVE_SHOTS, BARE), "m", score(0.5, "clean_accuracy", at={}))
    assert (found.value, found.where) == (0.76, "section 2")


def test_a_published_baseline_is_not_the_value_of_the_score_above_it():
    assert published(spec({**FIVE_SHOTS, "floor": "raw_pixels"}), "m", score()) is None


def test_a_value_of_another_source_than_the_paper_names_its_source():
    found = published(spec({**FIVE_SHOTS, "source": "README"}), "m", score())
    assert found.where == "README, Table 1"


@pytest.mark.parametrize("stderr", [None, 0.0])
def test_without_a_standard_error_the_difference_is_counted_in_none(stderr):
    found = published(spec(FIVE_SHOTS), "m", score(0.75, stderr=stderr))
    assert (found.difference, found.in_stderr) == (0.25, None)


OTHERS = [
    ("n", score()),
    ("m", score(metric="accuracy_cosine")),
    ("m", score(at={"shots": 1})),
    ("m", score(at={})),
    ("m", score(at={"shots": 5, "trial": 1})),
]


@pytest.mark.parametrize(("model", "other"), OTHERS)
def test_another_model_metric_or_condition_has_no_published_value(model, other):
    assert published(spec(FIVE_SHOTS), model, other) is None


def test_a_task_without_references_has_no_published_value():
    assert published(spec(), "m", score()) is None


def names(boards):
    return [one.task for one in boards]


def test_boards_come_in_the_order_they_are_named_in_each_once(tmp_path):
    write(tmp_path, board(result("a", score())), board(task="u"))
    assert names(named_boards(tmp_path, ["u", "t", "u"])) == ["u", "t"]


def test_without_names_there_are_all_boards_and_summaries(tmp_path):
    write(tmp_path, board(task="u"), board())
    write(tmp_path / "summaries", board(task="six"))
    assert sorted(names(named_boards(tmp_path, []))) == ["six", "t", "u"]


def test_a_name_without_a_board_is_said(tmp_path):
    write(tmp_path, board())
    with pytest.raises(UnknownNameError, match=r"no board in .* is named 'x'"):
        named_boards(tmp_path, ["x", "t"])


def test_a_folder_without_boards_is_said(tmp_path):
    with pytest.raises(UnknownNameError, match="no boards in "):
        named_boards(tmp_path, [])
