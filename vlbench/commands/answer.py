"""What a command answers with: what is printed, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table


class Answer(NamedTuple):
    """Lines and tables for standard output, lines for standard error, and the exit code."""

    shown: Sequence[str | Table] = ()
    problems: Sequence[str] = ()
    code: int = 0
