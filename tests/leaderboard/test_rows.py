import pytest
from planted_boards import counts, result, score

from vlbench.leaderboard.rows import publishable, unpublished


def test_complete_ok_rows_of_trained_models_are_publishable():
    rows = [result("b"), result("a")]
    assert publishable(rows) == {"a": rows[1], "b": rows[0]}


@pytest.mark.parametrize(
    "lacking",
    [
        {"status": "failed"},
        {"status": "skipped"},
        {"counts": counts(n=100, expected=101)},
        {"provenance": {"weights": "random:0"}},
    ],
)
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


@pytest.mark.parametrize(
    ("lacking", "why"),
    [
        ({"status": "skipped", "reason": "no text"}, "skipped, no text"),
        ({"counts": counts(n=3, expected=9)}, "partial, 3 of 9 official rows"),
        ({"provenance": {"weights": "random:0"}}, "random weights"),
        ({}, ""),
    ],
)
def test_a_row_that_is_not_published_says_why(lacking, why):
    assert unpublished(result("m", **lacking)) == why


def test_a_partial_row_without_a_count_says_so():
    row = result("a", score(), counts={"expected": 9})
    assert unpublished(row) == "partial, 0 of 9 official rows"
