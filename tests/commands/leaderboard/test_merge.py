from argparse import Namespace

import pytest
from planted_boards import board, result, score, write

from vlbench.cli import main
from vlbench.commands.leaderboard.merge import answer


def merge(folder, *names, output="out", check=False):
    folders = [folder / name for name in names]
    return answer(Namespace(folders=folders, output=folder / output, check=check))


@pytest.fixture
def boards(tmp_path):
    write(tmp_path / "1", board(result("m", score())))
    write(tmp_path / "2", board(result("n", score())))
    write(tmp_path / "other", board(result("m", score(0.75))))
    return tmp_path


def test_what_was_written_is_told_and_what_is_not_merged(boards):
    out = boards / "out"
    written, rest = merge(boards, "1", "2").shown
    assert written == f"wrote {out}/t.json: 2 rows"
    assert rest.startswith("summaries, figures and comparisons are not merged; `vlbench leaderboar")
    assert rest.endswith(f"build --output {out}` makes them")
    assert merge(boards, "1").shown == [f"nothing new; {out} has all of these rows"]


def test_a_conflict_is_a_problem_and_ends_in_1(boards):
    found = merge(boards, "1", "other")
    assert (found.code, found.shown) == (1, ())
    assert f"{boards}/1/t.json and {boards}/other/t.json contradict" in found.problems[0]
    assert found.problems[1] == f"nothing is changed in {boards}/out"


def test_a_check_prints_markdown_and_ends_in_1_where_rows_are_lost(boards):
    assert merge(boards, "1", "2", output="1", check=True)[1:] == ((), 0)
    found = merge(boards, "1", output="2", check=True)
    assert (found.shown[0], found.code) == ("**1 new row; 1 problem.**", 1)
    assert not (boards / "out").exists()


def test_a_malformed_board_ends_in_2(boards, capsys):
    (boards / "1" / "t.json").write_text("{}")
    assert main(["leaderboard", "merge", str(boards / "1"), "--output", str(boards / "out")]) == 2
    assert "1/t.json: is no board of schema 1" in capsys.readouterr().err
