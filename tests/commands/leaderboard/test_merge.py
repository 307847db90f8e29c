from argparse import Namespace

import pytest
from planted_boards import board, result, score, write

from vlbench.cli import main
from vlbench.commands.leaderboard.merge import answer


def merge(folder, *names, output="out"):
    folders = [folder / name for name in names]
    return answer(Namespace(folders=folders, output=folder / output))


@pytest.fixture
def boards(tmp_path):
    write(tmp_path / "1", board(result("m", score())))
    write(tmp_path / "2", board(result("n", score())))
    write(tmp_path / "other", board(result("m", score(0.75))))
    return tmp_path


def test_new_rows_are_told_and_the_next_command(boards):
    out = boards / "out"
    news, rest = merge(boards, "1", "2").shown
    assert news == "t: 2 new rows (m, n), 2 in all"
    assert rest == f"next: vlbench leaderboard build --output {out}"
    assert merge(boards, "1").shown == [f"nothing new; {out} already has all these rows"]


def test_rows_that_stood_before_are_not_new_and_few_names_are_told(boards):
    merge(boards, "1")
    write(boards / "3", board(*(result(f"n{i}", score()) for i in range(6))))
    assert merge(boards, "3").shown[0] == "t: 6 new rows (n0, n1, n2 and 3 more), 7 in all"


def test_an_older_version_that_moves_to_the_archive_has_no_new_rows(boards):
    write(boards / "3", board(result("m", score(), version=2), version=2))
    merge(boards, "1")
    assert merge(boards, "3").shown[:-1] == ["t: 1 new row (m), 1 in all"]
    assert (boards / "out" / "archive" / "t.v1.json").exists()


@pytest.mark.parametrize("option", ["--into", "--output"])
def test_into_and_output_are_one_option(boards, capsys, option):
    words = ["leaderboard", "merge", str(boards / "1"), option, str(boards / "2")]
    assert main(words) == 0
    assert "t: 1 new row (m), 2 in all" in capsys.readouterr().out


def test_a_folder_that_into_names_is_not_told_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results", board(result("m", score())))
    write(tmp_path / "leaderboards", board(result("n", score())))
    assert main(["leaderboard", "merge", "leaderboards", "--into", "results"]) == 0
    assert capsys.readouterr().err == ""


def test_a_conflict_is_a_problem_and_ends_in_1(boards):
    found = merge(boards, "1", "other")
    assert (found.code, found.shown) == (1, ())
    assert f"{boards}/1/t.json and {boards}/other/t.json contradict" in found.problems[0]
    assert found.problems[1] == f"nothing is changed in {boards}/out"
