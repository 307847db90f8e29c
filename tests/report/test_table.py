import pytest
from planted_boards import PRIMARY, board, result, score

from vlbench.report.leaders import Leaders
from vlbench.report.rows import Published
from vlbench.report.table import HEADS, Entry, cells, interval, other_scores, table_of, tables_of


def entry(*scores, **rest):
    return Entry(result("m", *scores), scores[0], [None] * len(scores))._replace(**rest)


def test_the_best_is_first_equal_ones_by_name_and_one_without_the_score_last():
    rows = [result("none"), *(result(name, score(0.4)) for name in "ba"), result("c", score(0.5))]
    table = table_of("t", PRIMARY, rows)
    assert [entry.row.model for entry in table.entries] == ["c", "a", "b", "none"]
    assert [one.value for one in table.scores] == [0.5, 0.4, 0.4]


def test_each_set_of_comparable_rows_has_its_place_and_its_leader():
    rows = [result(m, score(), comparable=c) for m, c in zip("acbd", "aabb", strict=True)]
    first, second = tables_of(board(*rows), {"b": Leaders("b", [], {}, {})})
    assert (first.place, second.place) == ((1, 2), (2, 2))
    assert second.title == "t (version 1), on b, d; not comparable with a, c"
    assert (first.heading, second.heading) == ("On a, c", "On b, d; not comparable with a, c")
    assert [first.entries[0].standing, second.entries[0].standing] == ["", "leader"]


def test_a_row_that_alone_differs_stands_marked_below_the_others_and_controls_last():
    control = {"provenance": {"control": True}}
    rows = [
        result("control", score(1.0), **control),
        result("alone", score(0.9), comparable="b"),
        result("a", score(0.2)),
        result("b", score(0.4)),
    ]
    (table,) = tables_of(board(*rows), {"b": Leaders("alone", [], {}, {})})
    assert [entry.row.label for entry in table.entries] == ["b", "a", "alone", "control (control)"]
    assert [entry.is_apart for entry in table.entries] == [False, False, True, False]
    assert table.heads.count("against the leader") == 1
    assert cells(table.entries[2])["against the leader"] == "not comparable"
    assert [len(table.models), len(table.controls)] == [3, 1]


def test_a_board_of_one_set_has_one_table_without_a_number():
    (table,) = tables_of(board(result("a", score()), result("b", status="failed")), {})
    assert (table.title, table.place, len(table.entries)) == ("t (version 1)", (1, 1), 1)


def test_what_stands_beside_a_score_is_told_under_its_head():
    paper = Published(0.25, "Table 1", 0.25, 2.0)
    shown = score(0.5, ci95=(0.25, 0.75), chance=0.1, floors={"raw_pixels": 0.2}, n=7000)
    found = cells(entry(shown, published=[paper], standing="behind", p=0.012))
    assert found == {
        "95 % interval": "25.0 to 75.0",
        "n": "7,000",
        "chance": "10.0 %",
        "highest floor": "20.0 % raw pixels",
        "against the leader": "behind, p 0.012",
        "published": "25.0 %, Table 1 (ours +25.0 points, +2.0 SE)",
    }


def test_what_is_unknown_is_empty():
    assert [cells(entry(score()))[head] for head in HEADS] == ["", "100", "", "", "", ""]
    without = Entry(result("m"), None, [])
    assert set(cells(without).values()) == {""}


def test_a_number_is_told_as_the_printer_wants_it():
    found = cells(entry(score(chance=0.1, floors={"x": 0.2})), lambda value, _: f"<{value}>")
    assert (found["chance"], found["highest floor"]) == ("<0.1>", "<0.2> x")


@pytest.mark.parametrize(("higher", "text"), [(True, "50.0 % b c"), (False, "20.0 % a")])
def test_the_floor_that_is_hardest_to_beat_is_named(higher, text):
    found = score(0.1, floors={"a": 0.2, "b_c": 0.5}, higher_is_better=higher)
    assert cells(entry(found))["highest floor"] == text


def test_no_head_stands_over_nothing():
    rows = [result("a", score(0.9)), result("b", score())]
    assert table_of("t", PRIMARY, rows).heads == list(HEADS[:4])
    tested = table_of("t", PRIMARY, rows, Leaders("a", [], {}, {"b": 0.5}))
    assert tested.heads == [*HEADS[:4], "against the leader"]
    assert table_of("t", PRIMARY, rows, Leaders("a", [], {"b": "no items"}, {})).heads == [
        *HEADS[:4]
    ]


def test_scores_under_the_same_conditions_stand_before_all_others():
    rows = [
        result("a", score(metric="other", at={"shots": 1}), score()),
        result("b", score(), score(metric="accuracy_cosine")),
    ]
    found = [(one.metric, one.at) for one in other_scores(table_of("t", PRIMARY, rows))]
    assert found == [("accuracy_cosine", {"shots": 5}), ("other", {"shots": 1})]


ENDS = [
    ((0.58, 0.695), "fraction", "58.0 to 69.5"),
    ((-0.00001, 1.0), "fraction", "0.0 to 100.0"),
    ((0.3397, 0.456), "correlation", "0.340 to 0.456"),
    ((-0.03109, 0.1293), "correlation", "-0.031 to 0.129"),
    ((-0.00001, 0.5), "difference", "0.0000 to 0.5000"),
    ((9.5, 130.25), "perplexity", "9.5 to 130.2"),
    ((98765.4, 123456.7), "perplexity", "98765 to 123457"),
    ((0.0, 0.0), "nats", "0.000 to 0.000"),
    ((1e-9, 2.5e-8), "nats", "1.000e-09 to 2.500e-08"),
]


@pytest.mark.parametrize(("ends", "unit", "text"), ENDS)
def test_both_ends_of_an_interval_have_the_same_decimals(ends, unit, text):
    assert interval(score(ci95=ends, unit=unit)) == text


def test_a_score_without_an_interval_has_an_empty_one():
    assert interval(score()) == ""
