from planted_boards import board, counts, result, score

from vlbench.leaderboard.page.tables import Shelf, reasons_of, row_ids, tables_of


def tables(*rows):
    planted = board(*rows)
    cards = {row.model: f"c{i}" for i, row in enumerate(rows)}
    return tables_of(Shelf("t", planted, {}, is_summary=False), cards, lambda *_: None)


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
