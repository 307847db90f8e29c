"""Standard output and standard error: encodings, closed pipes, and log lines."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TextIO

from vlbench.errors import Exited, printed


def settle_streams() -> None:
    """Let both streams escape characters that are not in their encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def announce_torch(work: str) -> None:
    """Log on a terminal that PyTorch is loaded before some work, unless it is loaded already."""
    if sys.stderr.isatty() and "torch" not in sys.modules:
        logging.getLogger(__name__).info("loading PyTorch, then %s", work)


def drain() -> None:
    """Flush standard output; if it is closed, let Python end without an error message."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_of_reader(error: BaseException) -> bool:
    """Return whether an error means that standard output was closed by its reader.

    rich ends the process in this case.
    """
    ended = error.__cause__ if isinstance(error, Exited) else error
    return any(
        isinstance(cause, BrokenPipeError) for cause in (ended, getattr(ended, "__context__", 0))
    )


class _CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to the current standard error, which is rich's console while bars are drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self.setStream(sys.stderr)
        super().emit(record)


class _PrintableFormatter(logging.Formatter):
    """Escapes control characters, which a file's name may contain."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line."""
        return printed(super().format(record))


@contextmanager
def news() -> Iterator[None]:
    """Print the log lines of vlbench on stderr, for example on slow work before a run."""
    logger, handler = logging.getLogger("vlbench"), _CurrentStderr()
    handler.setFormatter(_PrintableFormatter("vlbench: %(message)s"))
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # If a library gave the root logger a handler, each line would be printed twice.
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
