"""Whether data are present, determined by their loader before it reads them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

from vlbench.errors import DataAbsent

_only_asked: ContextVar[bool] = ContextVar("only_asked", default=False)


class Present(Exception):  # noqa: N818 - says what was found
    """The data are present; raised to end a loader that was only to check this."""


def require_files(what: str, home: str, *files: Path) -> None:
    """Raise DataAbsent for the first file that is absent."""
    for file in files:
        if not file.is_file():
            raise DataAbsent(what, home, str(file))


def require_folder(what: str, home: str, folder: Path, where: object = None) -> None:
    """Raise DataAbsent for an absent folder; `where` is the place to put its content."""
    if not folder.is_dir():
        raise DataAbsent(what, home, str(where or folder))


def require_images(what: str, home: str, folder: Path, *, pixels: bool) -> DataAbsent | None:
    """Raise DataAbsent for an absent folder of images; without `pixels`, return the error."""
    absent = DataAbsent(what, home, str(folder))
    if pixels and not folder.is_dir():
        raise absent
    return None if pixels else absent


def package_file(what: str, package: str, install: str, inside: str) -> Path:
    """Return a file inside a package, found without importing it. Raises DataAbsent."""
    spec = importlib.util.find_spec(package)
    file = Path(next(iter(spec.submodule_search_locations or ()), "") if spec else "", inside)
    require_files(what, f"`pip install {install}`", file)
    return file


def begin_reading() -> None:
    """Report that all files are present. A loader calls it after its checks, before reading."""
    if _only_asked.get():
        raise Present


def absence(load: Callable[[], object]) -> DataAbsent | None:
    """Return the error of a loader whose data are absent; None if they are present.

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
