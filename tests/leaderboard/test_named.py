import pytest
from planted_boards import board, result, score, write

from vlbench.errors import UnknownNameError
from vlbench.leaderboard.named import named_boards


def names(boards):
    return [one.task for one in boards]


def test_boards_come_in_the_order_they_are_named_in_each_once(tmp_path):
    write(tmp_path, board(result("a", score())), board(task="u"))
    assert names(named_boards(tmp_path, ["u", "t", "u"])) == ["u", "t"]


def test_without_names_there_are_all_boards_and_summaries(tmp_path):
    write(tmp_path, board(task="u"), board())
    write(tmp_path / "summaries", board(task="six"))
    assert sorted(names(named_boards(tmp_path, []))) == ["six", "t", "u"]


def test_a_name_without_a_board_is_said(tmp_path):
    write(tmp_path, board())
    with pytest.raises(UnknownNameError, match="no board x in "):
        named_boards(tmp_path, ["x", "t"])


def test_a_folder_without_boards_is_said(tmp_path):
    with pytest.raises(UnknownNameError, match="no board at all in "):
        named_boards(tmp_path, [])
