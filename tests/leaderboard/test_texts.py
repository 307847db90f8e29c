import pytest

from vlbench.leaderboard.figures.charts import chart, save, styled
from vlbench.leaderboard.figures.looks import looks
from vlbench.leaderboard.figures.panels import Panel, Point
from vlbench.leaderboard.texts import one_line, printed


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
