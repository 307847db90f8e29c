from argparse import Namespace

import pytest
from planted_boards import board, result, score, write

from vlbench.commands.leaderboard.show import answer
from vlbench.errors import UnknownNameError


def test_a_board_that_is_not_there_is_named(tmp_path):
    write(tmp_path, board(result("a", score())))
    with pytest.raises(UnknownNameError, match="no board x in "):
        answer(Namespace(output=tmp_path, tasks=["x"], include_path=[]))


def test_without_names_every_board_is_shown(tmp_path):
    write(tmp_path, board(result("a", score())), board(result("a", score()), task="u"))
    assert len(answer(Namespace(output=tmp_path, tasks=[], include_path=[])).shown) == 2
