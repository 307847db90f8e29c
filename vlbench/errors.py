"""Every error that vlbench raises on purpose, by what the reader has to fix.

VlbenchError
├── SpecError          a task, a models.yaml or an adapter's signature is wrong: fix the file
├── UnknownNameError   a name that no source has: fix the command
├── DataError          an image or a table that cannot be read: fix the machine's data
│   └── DataAbsent     a data set is missing: download it
│       └── PackageAbsent  a package is missing: install it
├── TooFewRows         a split is too small for the task
├── CannotDo           this model cannot do this task: skipped, with the reason
├── WeightsError       weights are unavailable or do not load
├── ServerError        the model's server gives no usable answer
├── IdentityClash      another model is already on the board under this name
├── Exited             user code, such as an adapter's, would end the program
├── ProcessLost        another process of this run, perhaps on another machine, has ended
└── OutputError        a result cannot be written
"""

import shlex
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from inspect import unwrap
from pathlib import PurePath
from types import FrameType
from typing import Any

# Prefix of the names of modules that `plugins` makes from files of sources.
SOURCE_PREFIX = "vlbench.code.plugins."

# The most names listed in an error message.
MOST_NAMES = 30

# Parts of the paths of installed packages.
PACKAGES = ("site-packages", "dist-packages")

# Exceptions that importing a user's file may raise: a broken file gives a message, not a traceback.
IMPORT_ERRORS = (
    *(ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, LookupError),
    *(RuntimeError, OSError, AssertionError, ArithmeticError),
)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class VlbenchError(Exception):
    """The problem, its place, and the way out, in one message."""


class SpecError(VlbenchError):
    """A file with invalid content; lists every problem found."""


class UnknownNameError(VlbenchError):
    """A name that no source has."""


class DataError(VlbenchError):
    """Data that are present but cannot be used."""


class DataAbsent(DataError):  # noqa: N818 - the contract's name
    """Missing data: what, where to get them, and where to put them."""

    def __init__(self, what: str, where_to_get: str, where_to_put: str) -> None:
        super().__init__(f"{what} not found; get it from {where_to_get}; put it at {where_to_put}")
        self.what = what
        self.where_to_get = where_to_get
        self.where_to_put = where_to_put


class PackageAbsent(DataAbsent):
    """A package that is not installed: what needs it, and the command that installs it."""

    def __init__(self, what: str, *commands: str) -> None:
        python = shlex.quote(sys.executable)
        install = " && ".join(f"{python} -m {command}" for command in commands)
        super().__init__(what, install, sys.prefix)
        self.args = (f"{what} not found; install it with `{install}`",)


class TooFewRows(VlbenchError):  # noqa: N818 - reads as the reason in a row
    """A split has fewer rows than the task needs: at least `rows`, if that is known.

    With `is_stratified`, classes keep their fractions in these rows.
    """

    def __init__(
        self, message: str, rows: int | None = None, *, is_stratified: bool = False
    ) -> None:
        which = "with the same fractions of classes, " if is_stratified else ""
        needs = "" if rows is None else f"; {which}a split needs {counted(rows, 'row')} or more"
        super().__init__(message + needs)


class CannotDo(VlbenchError):  # noqa: N818 - the contract's name
    """The model, or this checkpoint of it, lacks what the task needs."""


class WeightsError(VlbenchError):
    """Weights that are unavailable or do not load."""


class ServerError(VlbenchError):
    """The model's server does not answer, or gives an unusable answer."""


class IdentityClash(VlbenchError):  # noqa: N818 - reads as the reason
    """A model has the name of an ok row with other weights or another adapter source."""


class Exited(VlbenchError):  # noqa: N818 - says what happened
    """A user's code raised SystemExit, or another BaseException that is not an error."""


# The message and exit code of an interrupted run: 128 plus the number of the signal.
INTERRUPTED = "Interrupted. Finished work is saved; rerun the command to resume."
STOPPED = 130


class ProcessLost(VlbenchError):  # noqa: N818 - says what happened
    """Another process of this run no longer answers; finished work is saved."""


class OutputError(VlbenchError):
    """A board or an artifact that cannot be written."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown name, with the nearest known names."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {listed(names)}"
    if not near and len(names) > MOST_NAMES and kind.startswith("task"):
        hint = "`vlbench ls tasks` lists the tasks"
    return UnknownNameError(f"no {kind} is named '{name}'; {hint}")


def require_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise UnknownNameError for the first name that is not known."""
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)


def listed(names: Iterable[str]) -> str:
    """Return sorted names for a message, at most MOST_NAMES of them."""
    words = sorted(names)
    more = f" and {len(words) - MOST_NAMES} more" if len(words) > MOST_NAMES else ""
    return (", ".join(words[:MOST_NAMES]) or "none") + more


def printed(text: str) -> str:
    """Return a text for a terminal: control characters are escaped, except line breaks.

    A carriage return before a line feed is part of the line break, as in CSV.
    """
    lines = text.split("\r\n")
    return "\r\n".join(line if line.isprintable() else _spelled_out(line) for line in lines)


def _spelled_out(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in line)


def spaced(name: str) -> str:
    """Return a name with spaces for underscores, so that a narrow terminal can break it."""
    return name.replace("_", " ")


def described(error: BaseException) -> str:
    """Return an error's message with its type, and the line that probably caused it.

    That is the innermost line of user code, such as an adapter, in the traceback; if there is none,
    the line that raised the error. Errors of vlbench have only their message.
    """
    if isinstance(error, VlbenchError):
        return str(error)
    place = place_of(error)
    return f"{type(error).__name__}: {message_of(error)}{f' ({place})' if place else ''}"


def message_of(error: BaseException) -> str:
    """Return an error's message, even if its class cannot print it."""
    try:
        return str(error)
    except Exception as other:  # noqa: BLE001 - somebody's own class of errors
        return f"(its message cannot be shown: {type(other).__name__})"


@contextmanager
def exits_as_errors() -> Iterator[None]:
    """Raise Exited instead of SystemExit and the like, which `except Exception` does not catch."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ending(error) from error


def ending(error: BaseException) -> Exited:
    """Return the error to raise instead of one that would end the program."""
    return Exited(f"{described(error)} would end the program; raise another error")


def place_of(error: BaseException) -> str:
    """Return the file and line of an error, `adapter.py:12`; empty if it was not raised."""
    raised = list(_frames(error))
    places = [place for place in raised if _is_own(place[0])]
    if not raised:
        return ""
    frame, line = (places or raised)[-1]
    return f"{PurePath(frame.f_code.co_filename).name}:{line}"


def defined_at(function: Callable[..., Any]) -> str:
    """Return the file and first line of a function; its name if it has no line."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(unwrap(function), "__code__", None)
    if code is None:
        return getattr(function, "__name__", type(function).__name__)
    return f"{PurePath(code.co_filename).name}:{code.co_firstlineno}"


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of an error's traceback and the line of each, the innermost last."""
    trace = error.__traceback__
    while trace:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _is_own(frame: FrameType) -> bool:
    """Return whether a frame is of a source's file, or of neither vlbench nor a library."""
    module = str(frame.f_globals.get("__name__", ""))
    if module.startswith(SOURCE_PREFIX):
        return True
    file = frame.f_code.co_filename
    of_python = file.startswith(("<frozen", sysconfig.get_path("stdlib")))
    of_library = of_python or any(part in file for part in PACKAGES)
    return not of_library and module.partition(".")[0] != "vlbench"
