"""The cache folder: its entries, their models, data and last use, and their removal.

Features, outputs, trainings and drawn scenes can all be computed again. Digests of files, and the
costs of earlier runs, are small and stay.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.system.files import MOST_CONFIG, read_text, take_lock

# The file beside stored values that describes them; its date is the date of their last use.
ABOUT = "about.json"

# The contents of a cache besides the store, by folder.
FOLDERS = {
    "scenes": "drawings",
    "datasets": "data sets",
    "built": "records of build",
    "answers": "answers of a server",
}

# Used for values stored by an older vlbench, of which nothing else is known.
UNKNOWN = "unknown"


class Cached(NamedTuple):
    """A folder or a file that can be removed as a whole: its bytes, and when a run last used it."""

    place: Path
    what: str
    models: Sequence[str]
    data: str
    size: int
    used: float


def entries(cache: Path) -> Iterator[Cached]:
    """Yield the entries of a cache folder that can be computed again."""
    for place in cache.glob("features/??/*"):
        about = _about(place)
        models = [str(name) for name in about.get("models", [])]
        what, data = (str(about.get(key, UNKNOWN)) for key in ("what", "data"))
        yield from _entry(place, what, models or [UNKNOWN] * (not about), data)
    for folder, what in FOLDERS.items():
        for place in sorted((cache / folder).glob("[!.]*")):
            yield from _entry(place, what, [], "" if folder == "built" else place.name)


def prune(
    stored: Sequence[Cached], *, before: float | None, model: str | None, most: float | None
) -> list[Cached]:
    """Return the entries to remove: not used since `before` and of the `model`, as far as given.

    With `most`, the bytes that may be left, only as many of these as needed are returned, the
    oldest first.
    """
    chosen = sorted(
        (
            entry
            for entry in stored
            if (before is None or entry.used < before) and (model is None or model in entry.models)
        ),
        key=lambda entry: entry.used,
    )
    if most is None:
        return chosen
    left, removed = sum(entry.size for entry in stored), []
    for entry in chosen:
        if left <= most:
            break
        left -= entry.size
        removed.append(entry)
    return removed


def remove(entry: Cached) -> bool:
    """Remove an entry, and return whether it is gone; an entry locked by a run stays."""
    with ExitStack() as held:
        beside = entry.place.parent.glob(f".{entry.place.name}.lock")
        for file in [*entry.place.glob("*.lock"), *beside]:
            lock = take_lock(file, seconds=0)
            if lock is None:
                return False
            held.callback(lock.release)
        if entry.place.is_dir():
            shutil.rmtree(entry.place, ignore_errors=True)
        else:
            entry.place.unlink(missing_ok=True)
    with suppress(OSError):  # the folder has other entries
        entry.place.parent.rmdir()
    return not entry.place.exists()


def _about(place: Path) -> dict[str, Any]:
    """Return the content of the file beside stored values; empty if it is missing or broken."""
    with suppress(OSError, ValueError, RecursionError):
        about = json.loads(read_text(place / ABOUT, MOST_CONFIG))
        if isinstance(about, dict) and isinstance(about.get("models", []), list):
            return about
    return {}


def _entry(place: Path, what: str, models: Sequence[str], data: str) -> Iterator[Cached]:
    """Yield the entry of a place, unless another run has removed it in the meantime."""
    stats = list(_stats(place))
    with suppress(FileNotFoundError):
        used = max((stat.st_mtime for stat in stats), default=place.stat().st_mtime)
        yield Cached(place, what, models, data, sum(stat.st_size for stat in stats), used)


def _stats(place: Path) -> Iterator[os.stat_result]:
    """Yield the status of each file of a place; a run may rename or remove some in the meantime."""
    below = (Path(folder, name) for folder, _, names in os.walk(place) for name in names)
    for file in [place] if place.is_file() else below:
        with suppress(FileNotFoundError):
            yield file.stat()
