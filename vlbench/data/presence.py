"""Whether data are there, asked of their loader without letting it read them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from vlbench.errors import DataAbsent

_only_asked: ContextVar[bool] = ContextVar("only_asked", default=False)


class Present(Exception):  # noqa: N818 - says what was found
    """The data are there; a loader that was only asked for them ends here."""


def begin_reading() -> None:
    """Say that all files are there. A loader calls it after its checks, before it reads a file."""
    if _only_asked.get():
        raise Present


def absence(load: Callable[[], object]) -> DataAbsent | None:
    """Return the error of a loader whose data are absent; None if they are there.

    A loader that does not call `begin_reading` reads them first.
    """
    token = _only_asked.set(True)
    try:
        load()
    except DataAbsent as error:
        return error
    except Present:
        pass
    finally:
        _only_asked.reset(token)
    return None
