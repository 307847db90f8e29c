"""The commands: one module for each, and for each word of `leaderboard`.

The first line of a command's module names it and says what it does, as in ls.py; `vlbench --help`
reads it from there. The module has `add_options(parser)`, which adds its options to a parser of
argparse, and `answer(arguments)`, which returns an `Answer`. It is imported when its word is typed.
What imports torch is imported inside `answer`, so that `vlbench WORD --help` imports none.
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
