from argparse import Namespace

import pytest
from planted_boards import board, measured, result, score, write

from vlbench.commands.leaderboard.show import answer
from vlbench.errors import UnknownNameError
from vlbench.leaderboard.leaders import build_leaders


def test_a_board_that_is_not_there_is_named(tmp_path):
    write(tmp_path, board(result("a", score())))
    with pytest.raises(UnknownNameError, match="no board x in "):
        answer(Namespace(output=tmp_path, tasks=["x"], include_path=[]))


def test_without_names_every_board_is_shown(tmp_path):
    write(tmp_path, board(result("a", score())), board(result("a", score()), task="u"))
    assert len(answer(Namespace(output=tmp_path, tasks=[], include_path=[])).shown) == 2


def test_of_many_rows_the_best_are_shown_unless_their_board_is_named(tmp_path):
    rows = [result(f"m{i}", score(i / 100)) for i in range(30)]
    write(tmp_path, board(*rows))
    (some,) = answer(Namespace(output=tmp_path, tasks=[], include_path=[])).shown
    (whole,) = answer(Namespace(output=tmp_path, tasks=["t"], include_path=[])).shown
    assert (some.row_count, whole.row_count) == (20, 30)
    assert str(some.columns[0]._cells[0]) == "m29"
    assert "the best 20 of 30; name the board to see all" in str(some.title)


def test_what_cannot_be_told_apart_from_the_leader_is_marked(tmp_path):
    rows = [measured(tmp_path, m, [1] * n + [0] * (30 - n)) for m, n in (("x", 30), ("y", 29))]
    write(tmp_path, board(*rows, result("bare", score(0.1))))
    build_leaders(tmp_path)
    (table,) = answer(Namespace(output=tmp_path, tasks=["t"], include_path=[])).shown
    column = next(one for one in table.columns if str(one.header) == "against the leader")
    # One item of 30: (2.045 + 0.854) / 30 by Student's t, for the one pair that is tested.
    told = ["leader", "tied, detectable 9.7 points", "untested"]
    assert [str(cell) for cell in column.cells] == told


def test_without_comparisons_there_is_no_such_column_and_the_command_that_makes_it_is_told(
    tmp_path,
):
    write(tmp_path, board(result("a", score())))
    found = answer(Namespace(output=tmp_path, tasks=["t"], include_path=[]))
    assert "against the leader" not in [str(one.header) for one in found.shown[0].columns]
    assert found.problems == [
        "no board is compared with its leader yet; run vlbench leaderboard build"
    ]


def test_the_board_of_a_group_that_was_never_built_is_told_with_the_command(tmp_path):
    write(tmp_path, board(result("a", score())))
    told = "no board both in .*; those of groups are made by vlbench leaderboard build"
    with pytest.raises(UnknownNameError, match=told):
        answer(Namespace(output=tmp_path, tasks=["both"], include_path=[]))


def test_a_board_that_changed_since_its_comparisons_is_named(tmp_path):
    write(tmp_path, board(result("a", score())), board(result("a", score()), task="u"))
    build_leaders(tmp_path)
    assert answer(Namespace(output=tmp_path, tasks=[], include_path=[])).problems == []
    write(tmp_path, board(result("b", score())))
    (problem,) = answer(Namespace(output=tmp_path, tasks=[], include_path=[])).problems
    assert problem.startswith("t has changed since it was compared with its leader; run vlbench")
