from pathlib import Path

from planted_boards import board, counts, result, score

from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.report.leaders import Leaders
from vlbench.report.page.tables import Shelf, reasons_of, row_ids, tables_of


def tables(*rows, leaders=None, spec=None):
    planted = board(*rows)
    shelf = Shelf("t", planted, {"a": leaders} if leaders else {}, is_summary=False)
    return tables_of(shelf, spec)


def test_rows_that_may_not_be_compared_stand_in_tables_of_their_own():
    first, second = tables(
        result("a", score(0.2)), result("b", score(0.9), comparable="b"), result("c", score(0.3))
    )
    assert [[row.model for row in table.rows] for table in (first, second)] == [["c", "a"], ["b"]]
    assert second.caption == "Set 2 of 2: not comparable with the others"


def test_a_partial_row_and_random_weights_are_marked():
    (table,) = tables(
        result("a", score(), counts=counts(500, 1000)),
        result("b", score(), provenance={"weights": "random:0"}),
    )
    assert [row.badges for row in table.rows] == [["partial: 500 of 1,000"], ["random weights"]]


def test_a_score_of_ties_is_marked():
    (table,) = tables(result("a", score(), counts={**counts(), "ties": 51}))
    assert table.rows[0].score == "50.0 (mostly ties)"


def test_counts_that_n_does_not_say_are_notes():
    more = {**counts(), "clusters": 100, "ties": 6, "truncated_texts": 0}
    (table,) = tables(result("a", score(), notes=["x"], counts=more))
    assert list(table.rows[0].notes) == ["x", "ties: 6"]


def test_marks_that_differ_are_drawn_row_by_row():
    (table,) = tables(result("a", score(0.9, chance=0.5)), result("b", score(0.8, chance=0.25)))
    assert (table.marks, [row.bar for row in table.rows]) == ("", ["b v180 k100", "b v160 k50"])


def test_a_row_without_the_primary_score_is_shown_without_a_number():
    (table,) = tables(result("a", score(metric="other")))
    assert (table.rows[0].score, table.rows[0].bar) == ("-", "")


def test_skipped_and_failed_rows_are_no_rows_of_a_table():
    rows = [result("a", status="skipped", reason="no eyes"), result("b", status="failed")]
    assert tables(*rows) == []
    assert [reason.status for reason in reasons_of(board(*rows))] == ["failed", "skipped"]


def test_models_with_the_same_reason_stand_together():
    rows = [result(m, status="skipped", reason="no eyes") for m in "ab"]
    assert [tuple(one) for one in reasons_of(board(*rows))] == [("skipped", "no eyes", ["a", "b"])]


def test_two_rows_of_a_model_have_ids_of_their_own():
    rows = [result("a", comparable="sha256:11"), result("a", comparable="sha256:22"), result("b")]
    assert sorted(row_ids(board(*rows), "t").values()) == ["row-t.a.11", "row-t.a.22", "row-t.b"]


LEADERS = Leaders("a", ["b"], {"c": "no items"}, {"b": 0.5, "d": 0.01})


def test_scores_under_the_same_conditions_are_visible_and_all_others_can_be():
    found = score(), score(metric="other", at={"shots": 1}), score(metric="accuracy_cosine")
    (table,) = tables(result("a", *found))
    assert table.columns == ["95 % interval", "accuracy_cosine, %", "other (shots 1), %"]
    assert (table.shown, table.rows[0].cells) == (2, ["", "50.0", "50.0"])


def test_what_is_the_same_for_all_stands_once_and_what_varies_has_a_column():
    rows = [result("a", score(chance=0.1, n=10)), result("b", score(chance=0.1, n=2000))]
    (table,) = tables(*rows)
    assert (table.facts, table.columns) == (["chance 10.0"], ["95 % interval", "n"])
    assert [row.cells for row in table.rows] == [["", "10"], ["", "2,000"]]


def test_models_that_were_not_tested_are_named_with_the_reason():
    (table,) = tables(result("a", score()), leaders=LEADERS)
    assert table.facts == ["n 100", "not tested: c: no items"]


def test_a_column_says_how_models_stand_against_the_leader():
    (table,) = tables(result("a", score()), result("b", score(0.4)), leaders=LEADERS)
    assert table.columns == ["95 % interval", "against the leader"]
    assert [row.cells for row in table.rows] == [["", "leader"], ["", "tied"]]
    (bare,) = tables(result("a", score()), leaders=LEADERS._replace(p={}))
    assert bare.columns == ["95 % interval"]


def test_a_published_number_is_told_with_its_distance_in_standard_errors():
    one = {"model": "a", "metric": "accuracy", "at": {"shots": 5}, "value": 0.6, "where": "page 1"}
    spec = TaskSpec("t", Path(), Document(Path("a.yaml"), {}, {}), reference=[one])
    (table,) = tables(result("a", score(0.5, stderr=0.05)), spec=spec)
    assert table.columns == ["95 % interval", "published"]
    assert table.rows[0].cells == ["", "60.0, page 1 (ours -10.0 points, -2.0 SE)"]
