"""The commands: one module for each command, and for each subcommand of `leaderboard`.

The first line of a command's module names the command and describes it, as in ls.py; `vlbench
--help` prints it. The module has `add_options(parser)`, which adds options to an argparse parser,
and `answer(arguments)`, which returns an `Answer`. It is imported when its word is typed. Modules
that need torch are imported inside `answer`, so `vlbench WORD --help` does not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # `vlbench --help` needs no rich
    from rich.table import Table

FAILED, USAGE = 1, 2


class Answer(NamedTuple):
    """Lines and tables for standard output, lines for standard error, and the exit code."""

    shown: Sequence[str | Table] = ()
    problems: Sequence[str] = ()
    code: int = 0
