from argparse import Namespace

import pytest

from vlbench.commands.leaderboard.build import answer
from vlbench.errors import UnknownNameError


def test_a_folder_without_boards_is_named(tmp_path):
    with pytest.raises(UnknownNameError, match="no board at all in "):
        answer(Namespace(output=tmp_path, include_path=[]))
