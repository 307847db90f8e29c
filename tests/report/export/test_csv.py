import csv
import io

import pytest
from planted_boards import board, result, score
from planted_exports import HOSTILE, compared, named, referring, selection

from vlbench.report.export.csv import COLUMNS
from vlbench.report.export.csv import text as comma_separated


def lines(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_each_score_is_a_line(tmp_path):
    row = result("m", score(), score(0.25, "other", at={}))
    first, second = lines(comma_separated(selection(tmp_path, board(row))))
    assert (first["metric"], first["at"], first["value"]) == ("accuracy", '{"shots": 5}', "0.5")
    assert (second["metric"], second["at"], second["value"]) == ("other", "{}", "0.25")
    assert (first["is_primary"], second["is_primary"]) == ("true", "false")


def test_a_line_has_all_that_the_row_says_of_a_score(tmp_path):
    shown = score(0.5, stderr=0.125, ci95=(0.25, 0.75), chance=0.1, floors={"pixels": 0.2})
    chosen = selection(tmp_path, board(result("m", shown)), catalog=referring(0.25))
    (line,) = lines(comma_separated(chosen))
    names = ("stderr", "ci95_low", "ci95_high", "n", "chance", "floors", "published", "difference")
    wanted = ["0.125", "0.25", "0.75", "100", "0.1", '{"pixels": 0.2}', "0.25", "0.25"]
    assert [line[name] for name in names] == wanted
    assert (line["published_where"], line["difference_in_stderr"]) == ("Table 1", "2.0")
    assert (line["weights"], line["comparable"]) == ("sha256:1", "a")


def test_a_score_without_a_direction_has_none_in_its_line(tmp_path):
    (line,) = lines(
        comma_separated(selection(tmp_path, board(result("m", score(higher_is_better=None)))))
    )
    assert line["higher_is_better"] == ""


def test_the_columns_are_always_the_same(tmp_path):
    assert comma_separated(selection(tmp_path, board())) == ",".join(COLUMNS) + "\r\n"


def test_the_standing_is_that_of_the_primary_score(tmp_path):
    found = lines(comma_separated(compared(tmp_path, "a", "b", "c")))
    assert [line["against_leader"] for line in found] == ["clear leader", "behind", "behind"]


def test_lines_end_as_the_standard_says(tmp_path):
    text = comma_separated(named(tmp_path, "a,b", 'say "x"'))
    assert text.count("\r\n") == text.count("\n") == 3
    assert '"a,b"' in text
    assert '"say ""x"""' in text


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_one_cell(tmp_path, name):
    (line,) = lines(comma_separated(named(tmp_path, name)))
    assert line["model"] in {name, f"'{name}"}
    assert line["value"] == "0.9"


def test_control_characters_are_spelled_out(tmp_path):
    (line,) = lines(comma_separated(named(tmp_path, "a\x1b[1mb")))
    assert line["model"] == r"a\x1b[1mb"
