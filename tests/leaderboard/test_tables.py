import io
from pathlib import Path

import pytest
from planted_boards import PRIMARY, counts, result, score
from planted_boards import board as planted
from rich.console import Console

from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.drawing.looks import looks
from vlbench.errors import printed
from vlbench.leaderboard.figures.charts import Panel, Point, chart, save, styled
from vlbench.leaderboard.tables import (
    board_tables,
    condition,
    fitted,
    interval,
    lead,
    number,
    one_line,
    plain_table,
    probability,
    score_name,
    score_table,
)


def row(model, *scores, n=4, expected=4, **rest):
    return result(model, *scores, counts=counts(n, expected), **{"comparable": "c1"} | rest)


def board(*rows):
    return planted(*rows, task="few_shot_x", version=3)


def rendered(*tables):
    console = Console(record=True, width=200, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()


def order(text, *models):
    return sorted(models, key=text.index)


def test_the_best_is_first():
    rows = [row("low", score(0.2)), row("high", score(0.9)), row("middle", score(0.5))]
    text = rendered(*board_tables(board(*rows)))
    assert order(text, "low", "middle", "high") == ["high", "middle", "low"]


def test_where_lower_is_better_the_lowest_is_first():
    rows = [row(m, score(v, higher_is_better=False)) for m, v in [("big", 0.9), ("tiny", 0.1)]]
    assert order(rendered(*board_tables(board(*rows))), "big", "tiny") == ["tiny", "big"]


def test_the_title_says_task_and_version_and_the_column_the_conditions():
    text = rendered(*board_tables(board(row("m", score()))))
    assert "few_shot_x (version 3)" in text
    assert "accuracy (shots 5)" in text


def test_a_score_of_ties_is_marked():
    tied = result("m", score(0.1), counts={**counts(), "ties": 100})
    assert "10.0 % (mostly ties)" in rendered(*board_tables(board(tied)))
    few = result("m", score(0.1), counts={**counts(), "ties": 100, "choices": 200})
    assert "ties" not in rendered(*board_tables(board(few)))


def test_a_score_is_shown_with_all_it_takes_to_judge_it():
    floors = {"pixels": 0.25, "blank": 0.125}
    shown = score(0.531, ci95=(0.521, 0.541), chance=0.1, floors=floors, n=10_000)
    text = rendered(score_table("t", PRIMARY, [row("m", shown)]))
    line = next(line for line in text.splitlines() if " m " in line)
    assert " ".join(line.split()) == "m 53.1 % 52.1 to 54.1 10.0 % 25.0 % pixels 10000"


def test_where_lower_is_better_the_lowest_floor_is_hardest_to_beat():
    shown = score(0.1, floors={"pixels": 0.25, "blank": 0.125}, higher_is_better=False)
    assert "12.5 % blank" in rendered(score_table("t", PRIMARY, [row("m", shown)]))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (4 / 255, "4/255"),
        (0.2, "0.2"),
        (0, "0"),
        (1 / 3, "0.3333"),
        (20_000, "2e+04"),
        ("l2", "l2"),
    ],
)
def test_a_condition_is_told_in_four_digits_or_as_a_fraction_of_255(value, told):
    assert condition(value) == told


def test_what_is_not_known_is_a_dash():
    text = rendered(score_table("t", PRIMARY, [row("m", score())]))
    line = next(line for line in text.splitlines() if " m " in line)
    assert line.split() == ["m", "50.0", "%", "-", "-", "-", "100"]


def test_other_metrics_under_the_same_conditions_are_columns():
    rows = [
        row("a", score(), score(0.75, "accuracy_cosine"), score(0.125, "x", at={"shots": 1})),
        row("b", score()),
    ]
    text = rendered(score_table("t", PRIMARY, rows))
    assert ("accuracy cosine" in text, "75.0 %" in text, "12.5 %" in text) == (True, True, False)


def test_a_partial_row_is_marked():
    rows = [row("whole", score()), row("part", score(), n=4, expected=10)]
    lines = rendered(*board_tables(board(*rows))).splitlines()
    assert [line.split()[0] for line in lines if "(partial)" in line] == ["part"]


def test_rows_that_may_not_be_compared_stand_in_two_tables():
    rows = [row("a", score()), row("b", score(), comparable="c2")]
    first, second = board_tables(board(*rows))
    assert "not comparable with the others: set 1" in rendered(first)
    assert ("b" in rendered(second), "set 2" in rendered(second)) == (True, True)
    assert len(board_tables(board(row("a", score()), row("b", score())))) == 1


def test_rows_without_scores_stand_in_a_table_of_their_own():
    rows = [row("a", score()), row("b", status="skipped", reason="the model has no Detector")]
    scores, reasons = board_tables(board(*rows))
    assert " b " not in rendered(scores)
    text = rendered(reasons)
    assert "without scores" in text
    assert text.splitlines()[-2].split(maxsplit=2)[:2] == ["b", "skipped"]
    assert "the model has no Detector" in text


def test_a_board_of_failures_is_one_table():
    (table,) = board_tables(board(row("a", status="failed", reason="why")))
    assert "failed" in rendered(table)


def test_a_board_without_rows_has_no_tables():
    assert board_tables(board()) == []


def test_what_was_overridden_is_part_of_the_name_that_is_shown():
    rows = [row("clip", score(0.9)), row("clip[weights=random]", score(0.1))]
    assert "clip[weights=random]" in rendered(*board_tables(board(*rows)))


@pytest.mark.parametrize("reason", ["KeyError: [red] is gone", "unknown [a=b]", "closes [/b]"])
def test_a_reason_is_shown_as_it_is(reason):
    table = board_tables(board(row("m", status="failed", reason=reason)))
    assert reason in rendered(*table)


def test_a_text_of_a_plain_table_is_shown_as_it_is():
    assert "m[a=b]" in rendered(plain_table(["name"], [["m[a=b]"]], "title"))


def test_a_row_without_the_primary_score_is_shown_all_the_same():
    rows = [row("new", score()), row("old", score(metric="success"), comparable="c0")]
    text = rendered(*board_tables(board(*rows)))
    assert ("new" in text, "old" in text) == (True, True)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.53149, "fraction", "53.1 %"),
        (0.0, "fraction", "0.0 %"),
        (1, "fraction", "100.0 %"),
        (-0.125, "fraction", "-12.5 %"),
        (3.14159, "ratio", "3.142"),
        (1234567.0, "pixels", "1.235e+06"),
        (None, "fraction", "-"),
    ],
)
def test_numbers_are_written_as_people_read_them(value, unit, text):
    assert number(value, unit) == text


@pytest.mark.parametrize(
    ("p", "text"), [(1, "p 1.000"), (0.0012, "p 0.001"), (0.0009, "p <0.001"), (0, "p <0.001")]
)
def test_probabilities_have_three_decimals(p, text):
    assert probability(p) == text


def test_a_score_is_named_with_its_conditions():
    assert score_name("success", {"norm": "linf", "epsilon": 1 / 3}) == (
        "success (norm linf, epsilon 0.3333)"
    )
    assert score_name("accuracy", {}) == "accuracy"


def test_how_models_stand_to_the_leader_is_a_column():
    text = rendered(
        score_table("t", PRIMARY, [row("a", score()), row("b", score())], leading={"a": "leader"})
    )
    assert [line.split()[-1] for line in text.splitlines() if " 100 " in line] == ["leader", "-"]


def test_a_plain_table_has_its_columns_rows_and_title():
    text = rendered(plain_table(["name", "about"], [["a", "words"], ["b", ""]], "title"))
    words = ["title", "name", "about", "a", "words", "b"]
    assert [word for word in text.split() if word.isalpha()] == words


def test_a_narrow_terminal_breaks_words_and_loses_none():
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(*board_tables(board(row("a model", score(), score(metric="accuracy_hungarian")))))
    text = "".join(console.export_text().split())
    assert "…" not in text


CITED = [{"model": "b", "metric": "accuracy", "at": {"shots": 5}, "value": 0.5, "where": "Table 1"}]


def cited(name="few_shot_x"):
    return TaskSpec(name, Path(), Document(Path("a.yaml"), {}, {}), reference=CITED)


def test_a_published_value_stands_beside_ours_with_the_difference():
    rows = [row("a", score(0.9)), row("b", score(0.45, stderr=0.025))]
    lines = rendered(*board_tables(board(*rows), cited())).splitlines()
    (first,) = [line for line in lines if line.startswith(" b ")]
    assert "50.0 %  -5.0 points (-2.0 standard errors)" in first
    assert "points" not in next(line for line in lines if line.startswith(" a "))


def test_a_score_without_a_standard_error_differs_in_points_alone():
    text = rendered(*board_tables(board(row("b", score(0.45))), cited()))
    assert "-5.0 points" in text
    assert "standard errors" not in text


@pytest.mark.parametrize(
    "rest", [{"n": 3}, {"provenance": {"weights": "random:1", "adapter": "sha256:2"}}]
)
def test_a_row_that_may_not_be_published_is_not_held_against_the_paper(rest):
    text = rendered(*board_tables(board(row("b", score(0.45), **rest)), cited()))
    assert "published" not in text


def test_a_board_without_a_published_value_has_no_column_for_it():
    assert "published" not in rendered(*board_tables(board(row("a", score(0.9))), cited()))
    assert "published" not in rendered(*board_tables(board(row("b", score(0.9)))))


def test_differences_are_points_of_fractions_or_plain_numbers():
    assert (lead(-0.0123), lead(1.5, "words")) == ("-1.2 points", "+1.5")


@pytest.mark.parametrize(
    ("ends", "unit", "text"),
    [
        ((0.58, 0.695), "fraction", "58.0 to 69.5"),
        ((-0.00001, 1.0), "fraction", "0.0 to 100.0"),
        ((0.3397, 0.456), "correlation", "0.3397 to 0.4560"),
        ((-0.03109, 0.1293), "correlation", "-0.0311 to 0.1293"),
        ((-0.00001, 0.5), "difference", "0.0000 to 0.5000"),
        ((9.5, 130.25), "perplexity", "9.5 to 130.2"),
        ((98765.4, 123456.7), "perplexity", "98765 to 123457"),
        ((0.0, 0.0), "nats", "0.000 to 0.000"),
        ((1e-9, 2.5e-8), "nats", "1.000e-09 to 2.500e-08"),
    ],
)
def test_both_ends_of_an_interval_have_the_same_decimals(ends, unit, text):
    assert interval(score(ci95=ends, unit=unit)) == text


def numbers(*optional):
    columns = ["model", "score", "interval", "other"]
    row = ["clip-rn50", "52.3 %", "48.2 to 56.5", "-3.8 %"]
    return plain_table(columns, [row], optional=optional)


def headers(table):
    return [str(column.header) for column in table.columns]


def test_a_table_with_room_stays_as_it_is():
    assert headers(fitted(numbers("other"), 80)) == ["model", "score", "interval", "other"]
    assert fitted(numbers("other"), 80).caption is None


def test_a_table_fits_exactly_where_its_words_do():
    # clip-rn50, 52.3 %, 48.2 to 56.5, -3.8 %: 9 + 6 + 12 + 6, two blanks a column and one before.
    assert headers(fitted(numbers("other"), 42)) == ["model", "score", "interval", "other"]
    assert headers(fitted(numbers("other"), 41)) == ["model", "score", "interval"]


def test_optional_columns_are_left_out_from_the_last_and_counted():
    table = fitted(numbers("interval", "other"), 24)
    assert headers(table) == ["model", "score"]
    assert str(table.caption) == "2 more columns in a wider terminal or a file\n"
    assert str(fitted(numbers("other"), 41).caption).startswith("1 more column in")


@pytest.mark.parametrize(
    ("width", "widths"), [(42, [9, 6, 12, 6]), (38, [9, 6, 8, 6]), (36, [9, 5, 8, 5])]
)
def test_an_interval_breaks_before_a_number_and_its_unit_do(width, widths):
    assert [column.width for column in fitted(numbers(), width).columns] == widths


@pytest.mark.parametrize("width", [20, 30])
def test_the_cells_of_a_row_stand_below_each_other_where_words_are_too_long(width):
    table = fitted(numbers(), width)
    assert headers(table) == ["model"]
    (cell,) = table.columns[0].cells
    assert str(cell).splitlines()[:2] == ["clip-rn50", "    score: 52.3 %"]


def test_of_two_columns_the_second_needs_no_name_and_stays_indented():
    table = plain_table(["name", "about"], [["a" * 30, "some words of what it is"]])
    (cell,) = fitted(table, 36).columns[0].cells
    assert str(cell).splitlines() == ["a" * 30, "    some words of what it is"]
    (cell,) = fitted(table, 34).columns[0].cells
    assert str(cell).splitlines() == ["a" * 30, "    some words of what it is"]
    (cell,) = fitted(table, 26).columns[0].cells
    assert str(cell).splitlines()[1:] == ["    some words of what", "    it is"]


def test_a_narrow_column_keeps_its_width_and_a_long_text_gets_the_rest():
    table = plain_table(["name", "tags", "about"], [["a", "few shot", "word " * 20]])
    assert [column.width for column in fitted(table, 40).columns] == [4, 8, 21]


def test_the_table_itself_is_left_as_it_was():
    table = numbers("other")
    fitted(table, 24)
    assert headers(table) == ["model", "score", "interval", "other"]
    assert [column.width for column in table.columns] == [None] * 4


def test_a_table_without_rows_is_its_header():
    assert headers(fitted(plain_table(["name", "about"], []), 80)) == ["name", "about"]


def test_control_characters_are_spelled_out_for_a_terminal():
    assert printed("a\x1b[31mb\x07\ud800\u202e") == r"a\x1b[31mb\x07\ud800\u202e"
    assert printed("naïve 猫 [x]\nsecond line") == "naïve 猫 [x]\nsecond line"


@pytest.mark.parametrize("name", [r"$\frac{$", "$x$", r"\$", "$", "a\x01b"])
def test_a_name_is_drawn_as_it_is(tmp_path, name):
    panels = [Panel(title=name, x=x, y=name, models={name: [Point(1, 1, None)]}) for x in ("", "k")]
    with styled():
        file, _ = save(chart(name, panels, looks([name])), tmp_path / "figure")
    assert printed(name) in file.read_text().replace("&lt;", "<")


def test_a_text_for_one_line_has_no_line_break_and_no_control_character():
    assert one_line("a\nb\x1b[1m") == "a b\\x1b[1m"
