import re

import pytest
from markdown_it import MarkdownIt
from planted_boards import board, result, score
from planted_exports import HOSTILE, compared, named, selection

from vlbench.errors import SpecError
from vlbench.report.export import md
from vlbench.report.export.md import escaped, updated

BEGIN, END = "<!-- vlbench:begin t -->", "<!-- vlbench:end t -->"
README = f"# Mine é\r\n{BEGIN}\r\nold\r\n{END}\r\n trailing \n\n".encode()


def tokens(text):
    return MarkdownIt("commonmark").enable("table").parse(text)


def first_cells(text):
    """Return the tokens of the first cell of each row, as a reader of Markdown takes them."""
    found = tokens(text)
    return [found[i + 2].children for i, token in enumerate(found) if token.type == "tr_open"]


def test_the_table_has_a_row_for_each_model_and_an_arrow_for_the_better_direction(tmp_path):
    text = md.text(named(tmp_path, "one", "two"))
    assert [cell[0].content for cell in first_cells(text)] == ["model", "one", "two"]
    assert "| accuracy (shots 5) ↑ |" in text
    assert text.splitlines()[0] == BEGIN
    assert text.splitlines()[-1] == END


def test_where_lower_is_better_the_arrow_points_down(tmp_path):
    row = result("m", score(higher_is_better=False))
    assert "(shots 5) ↓ |" in md.text(selection(tmp_path, board(row)))


def test_a_score_without_a_direction_has_no_arrow(tmp_path):
    row = result("m", score(higher_is_better=None))
    assert "(shots 5) |" in md.text(selection(tmp_path, board(row)))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_as_it_is_and_is_no_markup(tmp_path, name):
    (_, cell) = first_cells(md.text(named(tmp_path, name)))
    assert {part.type for part in cell} <= {"text", "text_special"}
    assert "".join(part.content for part in cell) == name.replace("\n", " ")


def test_a_name_leaves_no_html_and_no_formula_in_the_source():
    texts = [escaped(name) for name in HOSTILE]
    assert [text for text in texts if re.search(r"<|(?<!\\)\$|www\.|https:", text)] == []


def test_the_best_is_bold_where_it_is_told_apart(tmp_path):
    text = md.text(compared(tmp_path, "a", "b", "c"))
    assert "| **a** | **90.0 %** |" in text
    assert "| b | 89.0 % |" in text
    assert "Bold: differs from every other model at 5 %" in text


def test_a_tied_leader_is_not_bold(tmp_path):
    text = md.text(compared(tmp_path, "a", "b", "c", tied=["b"]))
    assert "| a | 90.0 % |" in text
    assert "Bold" not in text


def test_a_board_without_rows_says_so(tmp_path):
    text = md.text(selection(tmp_path, board(result("m", status="skipped", reason="no"))))
    assert text == f"{BEGIN}\nt: no rows to show.\n{END}\n"


def test_what_stands_outside_the_markers_stays_byte_for_byte(tmp_path):
    new = updated(README, named(tmp_path, "one"), "README.md")
    assert new.startswith(f"# Mine é\r\n{BEGIN}\r\n**t (version 1)**\r\n".encode())
    assert new.endswith(f"|\r\n{END}\r\n trailing \n\n".encode())
    assert b"old" not in new


@pytest.mark.parametrize("content", [README, README.replace(b"\r\n", b"\n")])
def test_updated_twice_is_the_same(tmp_path, content):
    chosen = named(tmp_path, *HOSTILE)
    once = updated(content, chosen, "README.md")
    assert updated(once, chosen, "README.md") == once


def test_each_board_has_its_own_place(tmp_path):
    chosen = selection(tmp_path, board(result("a", score())), board(task="u"))
    text = "<!-- vlbench:begin u -->\n<!-- vlbench:end u -->\nbetween\n" + f"{BEGIN}\n{END}"
    new = updated(text.encode(), chosen, "README.md").decode()
    assert new.index("u: no rows") < new.index("between") < new.index("| a |")
    assert new.endswith(END)


WRONG_MARKERS = [
    (b"none", f"README.md: has no markers for t; add these lines .*:\n{BEGIN}\n{END}"),
    (f"see {BEGIN} and {END}".encode(), "has no markers for t"),
    (f"{BEGIN}\n".encode(), "has no markers for t"),
    (f"{BEGIN}\n{END}\n{BEGIN}\n".encode(), "occur more than once; keep one of each"),
    (f"{END}\n{BEGIN}\n".encode(), "are out of order; put them in this order"),
]


@pytest.mark.parametrize(("content", "match"), WRONG_MARKERS)
def test_markers_that_are_missing_doubled_or_crossed_are_said(tmp_path, content, match):
    with pytest.raises(SpecError, match=match):
        updated(content, named(tmp_path, "one"), "README.md")


def test_the_name_of_a_board_cannot_end_its_marker(tmp_path):
    text = md.text(selection(tmp_path, board(task="x --><script>")))
    assert text.splitlines()[0].count("-->") == 1
    assert "<script>" not in text
