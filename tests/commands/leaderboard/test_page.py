from argparse import Namespace

import pytest
from planted_boards import board, result, score, write

from vlbench.commands.leaderboard.page import answer
from vlbench.errors import UnknownNameError
from vlbench.leaderboard.leaders import build_leaders


def test_the_page_is_one_file_whose_place_is_said(tmp_path):
    write(tmp_path, board(result("a", score())))
    out = tmp_path / "site"
    (line,) = answer(Namespace(output=tmp_path, folder=out, include_path=[])).shown
    assert [file.name for file in out.iterdir()] == ["index.html"]
    assert line.startswith(f"wrote {out}/index.html (0.")


def test_a_folder_without_boards_is_named(tmp_path):
    with pytest.raises(UnknownNameError, match="no board at all in "):
        answer(Namespace(output=tmp_path, folder=tmp_path, include_path=[]))


def test_ties_that_are_out_of_date_are_named_and_left_out(tmp_path):
    write(tmp_path, board(result("a", score())))
    build_leaders(tmp_path)
    write(tmp_path, board(result("a", score(0.4))))
    found = answer(Namespace(output=tmp_path, folder=tmp_path / "site", include_path=[]))
    assert found.problems[0].startswith(
        "t: figure, wrong items and ties with the leader are left out,"
    )


def test_boards_that_were_never_built_are_told_what_the_page_lacks(tmp_path):
    write(tmp_path, board(result("a", score())))
    found = answer(Namespace(output=tmp_path, folder=tmp_path / "site", include_path=[]))
    assert found.problems == [
        "figures, wrong items and ties with leaders are left out; run vlbench leaderboard build"
    ]
