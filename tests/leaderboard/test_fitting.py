import pytest

from vlbench.leaderboard.fitting import fitted
from vlbench.leaderboard.tables import plain_table


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
