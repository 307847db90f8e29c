"""Leftovers of killed runs: parts of files that nobody will ever end writing."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from vlbench.files import PART

# How old a part is before no run can be writing it any more, in seconds.
DAY = 86_400.0

# A store may hold a million files, so that a folder is swept once a day.
MARK = ".swept"


def sweep(folder: Path) -> None:
    """Remove the parts of files, below a folder, that runs were killed over more than a day ago."""
    if not folder.is_dir() or _age(folder / MARK) < DAY:
        return
    with suppress(OSError):  # somebody else's folder may be read but not written
        (folder / MARK).touch()
        for part in folder.rglob(f"{PART}*"):
            if _age(part) > DAY:
                part.unlink(missing_ok=True)


def _age(file: Path) -> float:
    """Return how many seconds ago a file was written; without end where it is not there."""
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return float("inf")
