"""Standard output and standard error: what they cannot show, who no longer reads them, and news."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TextIO

from vlbench.errors import Exited, printed


def settle_streams() -> None:
    """Let both streams spell out what their encoding lacks, such as all but ASCII."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drain() -> None:
    """Flush standard output; where it takes nothing more, let Python end without a complaint."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_of_reader(error: BaseException) -> bool:
    """Return whether standard output has no reader any more; rich ends the process for that."""
    ended = error.__cause__ if isinstance(error, Exited) else error
    return any(
        isinstance(one, BrokenPipeError) for one in (ended, getattr(ended, "__context__", 0))
    )


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to what is standard error at that moment: while bars are drawn, rich's console."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self.setStream(sys.stderr)
        super().emit(record)


class _Printed(logging.Formatter):
    """Spells control characters out, which a name of a file may have."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line."""
        return printed(super().format(record))


@contextmanager
def news() -> Iterator[None]:
    """Let what takes long before a run starts say so on stderr."""
    logger, handler = logging.getLogger("vlbench"), _CurrentStderr()
    handler.setFormatter(_Printed("vlbench: %(message)s"))
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # A library may have given the root a handler of its own: the same line would come twice.
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


class Unpadded:
    """A text file that gets lines without the blanks that a table ends them with."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.encoding = file.encoding

    def write(self, text: str) -> int:
        """Write a text of whole lines."""
        return self._file.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()
