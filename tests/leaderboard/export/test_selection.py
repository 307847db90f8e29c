from planted_boards import board, counts, result, score
from planted_exports import referring, selection

from vlbench.leaderboard.export.selection import listed


def models(part):
    return [entry.row.model for entry in part.entries]


def test_the_best_is_first_and_a_row_without_the_primary_score_last(tmp_path):
    rows = [result("none", score(1.0, "other")), result("low", score(0.1)), result("up", score())]
    (part,) = selection(tmp_path, board(*rows)).parts
    assert models(part) == ["up", "low", "none"]


def test_where_lower_is_better_the_lowest_is_first(tmp_path):
    rows = [result(m, score(v, higher_is_better=False)) for m, v in [("big", 0.9), ("tiny", 0.1)]]
    (part,) = selection(tmp_path, board(*rows)).parts
    assert models(part) == ["tiny", "big"]


def test_rows_that_may_not_be_compared_are_sets_of_their_own(tmp_path):
    rows = [result("a", score()), result("b", score(), comparable="other")]
    first, second = selection(tmp_path, board(*rows)).parts
    assert (models(first), models(second)) == (["a"], ["b"])
    assert second.title == "t (version 1), not comparable with the others: set 2"


def test_skipped_failed_partial_and_random_rows_are_listed_apart(tmp_path):
    rows = [
        result("s", status="skipped", reason="no text"),
        result("s2", status="skipped", reason="no text"),
        result("f", status="failed", reason="broke\nbadly"),
        result("p", score(), counts=counts(1, 2)),
        result("r", score(), provenance={"weights": "random:0"}),
    ]
    found = selection(tmp_path, board(*rows))
    assert found.parts == []
    assert listed(found.left_out) == [
        "t: left out (skipped, no text): s, s2",
        "t: left out (failed, broke badly): f",
        "t: left out (partial, 1 of 2 official rows): p",
        "t: left out (random weights): r",
    ]


def test_a_published_value_stands_beside_its_score(tmp_path):
    row = result("m", score(0.5, "other"), score(0.5, stderr=0.125))
    (part,) = selection(tmp_path, board(row), catalog=referring(0.25)).parts
    (entry,) = part.entries
    assert entry.published[0] is None
    assert entry.reference == (0.25, "Table 1", 0.25, 2.0)


def test_a_row_without_the_primary_score_has_no_reference(tmp_path):
    row = result("m", score(0.5, "other"))
    (part,) = selection(tmp_path, board(row), catalog=referring()).parts
    assert part.entries[0].reference is None
