"""The console that commands and progress print on."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from vlbench.errors import printed

if TYPE_CHECKING:  # `vlbench --help` needs no rich
    from rich.console import Console


def open_console(*, quiet: bool = False) -> Console:
    """Return the console; if it is not a terminal, its lines are not wrapped."""
    from rich.console import Console  # noqa: PLC0415 - help needs no rich

    console = Console(highlight=False, emoji=False, quiet=quiet)
    if console.is_terminal:
        return console
    unpadded: Any = Unpadded(sys.stdout)
    return Console(file=unpadded, highlight=False, emoji=False, quiet=quiet, width=10_000)


class Unpadded:
    """A text file whose lines lose the trailing blanks of a table."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.encoding = file.encoding

    def write(self, text: str) -> int:
        """Write a text of whole lines."""
        return self._file.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()


def say(console: Console, line: str) -> None:
    """Print a line unchanged, unless it is empty; on a terminal it is wrapped between words."""
    if not line:
        return
    wraps = not console.is_terminal
    console.print(printed(line), highlight=False, markup=False, soft_wrap=wraps)
