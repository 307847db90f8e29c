"""Folders of several files that change as one: a copy is written and takes the folder's place."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from glob import escape
from pathlib import Path

from vlbench.errors import OutputError
from vlbench.files import locked

# Of renameat2 (Linux) and renamex_np (macOS): paths as they are, and exchange what has the names.
AT_FDCWD, RENAME_EXCHANGE, RENAME_SWAP = -100, 2, 2


@contextmanager
def held(folder: Path, what: str) -> Iterator[bool]:
    """Hold the lock of a folder that has files, and yield whether it has any.

    What killed holders left beside it is removed. A folder without files is not even made:
    `rewritten` makes it when it is complete. Raises OutputError.
    """
    occupied = folder.is_dir() and any(folder.iterdir())
    with locked(folder, what) if occupied else nullcontext():
        if occupied:
            with _explained(folder):
                for left in folder.resolve().parent.glob(f"{escape(_beside(folder))}*"):
                    shutil.rmtree(left)
        yield occupied


@contextmanager
def rewritten(folder: Path, *, occupied: bool) -> Iterator[Path]:
    """Yield a copy of a folder, which takes its place in one step when the block ends well.

    Killed at any moment, the folder is as it was or as it is to be; what is left beside it goes
    when it is `held` again. Files are hard links: replace them, never write into them. The caller
    holds the lock of an `occupied` folder, which the copy shares. Raises OutputError.
    """
    real = folder.resolve()
    if Path.cwd().is_relative_to(real):
        raise OutputError(f"cannot replace {folder} from inside it; go to another folder first")
    copy = real.with_name(_beside(folder) + secrets.token_hex(4))
    try:
        with _explained(folder):
            copy.mkdir(parents=True)
            if occupied:
                shutil.copytree(
                    real, copy, symlinks=True, copy_function=_link_or_copy, dirs_exist_ok=True
                )
        yield copy
        with _explained(folder):
            if occupied:
                _exchange(copy, real)
            else:
                copy.rename(real)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Raise what the machine refuses as OutputError, with the way out."""
    try:
        yield
    except OSError as error:
        why = f"cannot replace {folder} in one step: {error.strerror or error}"
        way_out = f"merge into a new folder (--output NEW), with {folder} among the folders"
        raise OutputError(f"{why}; {way_out}") from error


def _beside(folder: Path) -> str:
    """Return how the names begin of the copies beside a folder."""
    return f".{folder.resolve().name}.merging-"


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one step. Raises OSError where that cannot be done."""
    first, second = os.fsencode(one), os.fsencode(other)
    calls: dict[str, tuple[str, Sequence[int | bytes]]] = {
        "linux": ("renameat2", (AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE)),
        "darwin": ("renamex_np", (first, second, RENAME_SWAP)),
    }
    name, given = calls.get(sys.platform, ("", ()))
    library = ctypes.CDLL(None, use_errno=True) if name else None
    if not hasattr(library, name):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if getattr(library, name)(*given):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
