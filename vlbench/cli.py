"""The command line: parses argv, runs a command, prints its answer. Only this module exits.

Help and listings import no torch; the commands that need it import it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from vlbench.commands import FAILED, USAGE
from vlbench.commands.parser import normalise_argv, parser_of, which_boards
from vlbench.commands.streams import drain, is_of_reader, news, settle_streams
from vlbench.errors import (
    INTERRUPTED,
    STOPPED,
    Exited,
    OutputError,
    ProcessLost,
    VlbenchError,
    WeightsError,
    exits_as_errors,
    printed,
)
from vlbench.system.console import open_console

if TYPE_CHECKING:
    from vlbench.commands import Answer

# 128 plus the number of SIGPIPE, which ends other programs if their output is closed.
UNREAD = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if sys.stdout is None:
        return _fail("standard output is closed; open it, or send it to /dev/null")
    settle_streams()
    if "_ARGCOMPLETE" in os.environ:
        from vlbench.commands.completion import complete

        complete()
    words = normalise_argv(sys.argv[1:] if argv is None else argv)
    try:
        arguments = parser_of().parse_args(words)
        if getattr(arguments, "config", None):
            from vlbench.commands.run import insert_config

            arguments = parser_of().parse_args(insert_config(arguments, words), once=False)
        arguments.typed = words
        if notice := which_boards(arguments, words):
            print(f"vlbench: {notice}", file=sys.stderr)
        with news(), exits_as_errors():
            code = _print(arguments.answer(arguments))
        sys.stdout.flush()
    except (VlbenchError, OSError, KeyboardInterrupt, SystemExit) as error:
        return _end(error)
    finally:
        drain()
    return code


def _end(error: BaseException) -> int:
    """Print why a command ended early, and return its exit code."""
    if isinstance(error, KeyboardInterrupt):
        return _fail(INTERRUPTED, STOPPED)
    if is_of_reader(error):
        return UNREAD
    if isinstance(error, SystemExit):
        raise error
    of_machine = isinstance(error, Exited | OSError | OutputError | ProcessLost | WeightsError)
    return _fail(error, FAILED if of_machine else USAGE)


def _fail(why: object, code: int = FAILED) -> int:
    _print_text(f"vlbench: {why}", sys.stderr)
    return code


def _print(answer: Answer) -> int:
    """Print an answer, and return its exit code."""
    from vlbench.report.texts import fitted

    console = open_console()
    for part in answer.shown:
        if isinstance(part, str):
            _print_text(part)
        else:
            console.print(fitted(part, console.width))
    for problem in answer.problems:
        _print_text(problem, sys.stderr)
    return answer.code


def _print_text(text: str, file: TextIO | None = None) -> None:
    """Print a text of any origin, with control characters escaped."""
    print(printed(text), file=file)


if __name__ == "__main__":
    sys.exit(main())
