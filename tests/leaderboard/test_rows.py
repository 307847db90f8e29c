import pytest
from planted_boards import PRIMARY, counts, result, score

from vlbench.leaderboard.rows import comparable_sets, publishable, ranked, unpublished


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
