from types import SimpleNamespace

from planted_boards import PRIMARY, result, score

from vlbench.leaderboard.comparison.leaders import Leaders
from vlbench.leaderboard.page.columns import (
    columns_of,
    entries_of,
    facts_of,
    published_text,
)

LEADERS = Leaders("a", ["b"], {"c": "no items"}, {"b": 0.5, "d": 0.01})


def nothing(_model, _score):
    return None


def labels(rows, leaders=None, published=nothing):
    columns, shown = columns_of(PRIMARY, entries_of(rows, PRIMARY), leaders, published)
    return [column.label for column in columns], shown


def test_the_lowest_error_comes_first_and_a_row_without_the_score_last():
    rows = [result("none"), result("b", score(0.4, higher_is_better=False))]
    rows += [result("a", score(0.1, higher_is_better=False))]
    assert [entry.row.model for entry in entries_of(rows, PRIMARY)] == ["a", "b", "none"]


def test_scores_under_the_same_conditions_stand_before_all_others():
    found = score(), score(metric="other", at={"shots": 1}), score(metric="accuracy_cosine")
    names = ["95 % interval", "accuracy_cosine, %", "other (shots 1), %"]
    assert labels([result("a", *found)]) == (names, 2)


def test_what_is_the_same_for_all_stands_once_and_what_varies_has_a_column():
    rows = [result("a", score(chance=0.1, n=10)), result("b", score(chance=0.1, n=20))]
    assert facts_of(entries_of(rows, PRIMARY), None) == ["chance 10.0"]
    assert labels(rows)[0] == ["95 % interval", "n"]


def test_models_that_were_not_tested_are_named_with_the_reason():
    entries = entries_of([result("a", score())], PRIMARY)
    assert facts_of(entries, LEADERS) == ["n 100", "not tested: c: no items"]


def test_a_column_says_how_models_stand_against_the_leader():
    assert labels([result("a", score())], LEADERS)[0] == ["95 % interval", "leader"]
    assert labels([result("a", score())], LEADERS._replace(p={}))[0] == ["95 % interval"]


def test_a_published_number_is_told_with_its_distance_in_standard_errors():
    paper = SimpleNamespace(value=0.5, in_stderr=-2.0)
    assert published_text(paper, "fraction") == "50.0 (-2.0 SE)"
    assert published_text(SimpleNamespace(value=0.5, in_stderr=None), "fraction") == "50.0"
    assert "published" in labels([result("a", score())], published=lambda *_: paper)[0]
