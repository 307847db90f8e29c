from argparse import Namespace

import pytest
from planted_boards import board, result, score, write

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.leaderboard.page import answer
from vlbench.errors import UnknownNameError
from vlbench.report.building import build
from vlbench.report.leaders import build_leaders


def test_the_page_is_one_file_whose_place_is_said(tmp_path):
    write(tmp_path, board(result("a", score())))
    out = tmp_path / "site"
    *_, line = answer(Namespace(output=tmp_path, folder=out, include_path=[])).shown
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


def test_boards_that_were_never_built_are_built_as_build_does(tmp_path):
    for folder in (tmp_path / "1", tmp_path / "2"):
        scores = [score(at={"k": k}) for k in (1, 2)]
        write(folder, board(result("a", *scores), primary={"metric": "accuracy", "at": {"k": 1}}))
    build(tmp_path / "1", load_catalog([]))
    pages = [
        answer(Namespace(output=tmp_path / name, folder=tmp_path / "site" / name, include_path=[]))
        for name in "12"
    ]
    assert [page.problems for page in pages] == [[], []]
    assert [len(page.shown) for page in pages] == [1, 2]
    assert pages[1].shown[0] == f"built 4 files in {tmp_path / '2'}"
    first, second = (tmp_path / "site" / name / "index.html" for name in "12")
    assert first.read_bytes() == second.read_bytes()
    assert b"data:image/svg+xml" in first.read_bytes()
