import pytest
from consoles import rendered

from vlbench.drawing.looks import looks
from vlbench.errors import printed
from vlbench.report.figures.charts import Panel, Point, chart, save, styled
from vlbench.report.texts import (
    condition,
    fitted,
    hardest_floor,
    lead,
    number,
    one_line,
    plain_table,
    probability,
    score_name,
)
from vlbench.results import Score

CONDITIONS = [
    (4 / 255, "4/255"),
    (0.2, "0.2"),
    (0, "0"),
    (1 / 3, "0.3333"),
    (20_000, "2e+04"),
    ("l2", "l2"),
]


@pytest.mark.parametrize(("value", "told"), CONDITIONS)
def test_a_condition_is_told_in_four_digits_or_as_a_fraction_of_255(value, told):
    assert condition(value) == told


def test_a_text_of_a_plain_table_is_shown_as_it_is():
    assert "m[a=b]" in rendered(plain_table(["name"], [["m[a=b]"]], "title"))


NUMBERS = [
    (0.53149, "fraction", "53.1 %"),
    (0.0, "fraction", "0.0 %"),
    (1, "fraction", "100.0 %"),
    (-0.125, "fraction", "-12.5 %"),
    (-0.00004, "fraction", "0.0 %"),
    (3.14159, "ratio", "3.142"),
    (1234567.0, "pixels", "1.235e+06"),
    (None, "fraction", "-"),
]


@pytest.mark.parametrize(("value", "unit", "text"), NUMBERS)
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


def test_a_plain_table_has_its_columns_rows_and_title():
    text = rendered(plain_table(["name", "about"], [["a", "words"], ["b", ""]], "title"))
    words = ["title", "name", "about", "a", "words", "b"]
    assert [word for word in text.split() if word.isalpha()] == words


def test_differences_are_points_of_fractions_or_plain_numbers():
    assert (lead(-0.0123), lead(1.5, "words")) == ("-1.2 points", "+1.5")


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


def test_a_name_beside_numbers_is_shortened_before_they_stand_below_each_other():
    row = ["a" * 30, "50.0 %", "45.0 to 55.0", "300"]
    table = plain_table(["model", "score", "interval", "n"], [row], numbers=True)
    narrow = fitted(table, 48)
    assert headers(narrow) == ["model", "score", "interval", "n"]
    assert [str(next(column.cells)) for column in narrow.columns] == ["a" * 17 + "…", *row[1:]]
    assert headers(fitted(table, 40)) == ["model"]


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
        file, *_ = save(chart(name, panels, looks([name])), tmp_path / "figure")
    assert printed(name) in file.read_text().replace("&lt;", "<")


def test_a_text_for_one_line_has_no_line_break_and_no_control_character():
    assert one_line("a\nb\x1b[1m") == "a b\\x1b[1m"


@pytest.mark.parametrize(
    ("floors", "hardest"),
    [({"a": 0.2, "b": 0.4}, None), ({"a": 0.2, "b": 0.6}, ("b", 0.6)), ({"a": 0.5}, ("a", 0.5))],
)
def test_a_floor_below_chance_is_never_the_highest_floor(floors, hardest):
    score = Score("accuracy", value=0.7, n=10, chance=0.5, floors=floors)
    assert hardest_floor(score) == hardest
