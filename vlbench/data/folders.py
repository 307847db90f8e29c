"""The files of a user's folder, without hidden files and caches of other programs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple
from unicodedata import normalize

from vlbench.data.names import normal_form
from vlbench.errors import DataError
from vlbench.system.files import walk_links

# Folders of Synology and QNAP, macOS, Windows, Linux and Python, in lower case. They contain
# thumbnails and copies, never a class.
CACHES = {
    *("@eadir", "@recycle", "@recently-snapshot", "@tmp", "#recycle", "#snapshot", "__macosx"),
    *("$recycle.bin", "system volume information", "lost+found", "__pycache__"),
}


class Files(NamedTuple):
    """The files under a folder, relative to a root, sorted; and the number left out, by kind."""

    names: list[str]
    left_out: Counter[str]


def own_spelling(root: Path, name: str) -> str:
    """Return a path as a folder spells it: composed or decomposed if it is absent as given.

    A path that is absent in each spelling is returned as given.
    """
    if name.isascii():
        return name
    forms = [name, *(normalize(form, name) for form in ("NFC", "NFD"))]
    paths = {f"{root}/{form}": form for form in forms}
    # Unlike Path.is_file, os.path.isfile returns False for a text that is too long for a name.
    return next((paths[path] for path in filter(os.path.isfile, paths)), name)


def is_visible(name: str) -> bool:
    """Return whether a file or a folder is the user's: neither hidden nor a program's cache."""
    return not name.startswith(".") and name.lower() not in CACHES


def visible_folders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted by their normal forms."""
    names = [path.name for path in folder.iterdir() if path.is_dir() and is_visible(path.name)]
    return sorted(names, key=normal_form)


def files_beside(folder: Path) -> Counter[str]:
    """Return the number of files in a folder by kind, and the number of files in its caches."""
    paths = list(folder.iterdir())
    files = [path.name for path in paths if path.is_file()]
    visible, hidden = _without_hidden(files)
    return count_kinds(visible) + hidden + _cached(folder, [path.name for path in paths])


def count_kinds(names: Iterable[str]) -> Counter[str]:
    """Return the number of files by their suffix."""
    return Counter(PurePath(name).suffix.lower() or "no suffix" for name in names)


def dropped_files(kinds: Counter[str], what: str) -> dict[str, int]:
    """Return how many files of each kind are left out of `Data` because they are not `what`."""
    return {f"files ({kind}) that are not {what}": count for kind, count in sorted(kinds.items())}


def visible_files(root: Path, folder: str = "") -> Files:
    """Return the files under a folder and under folders linked there.

    Hidden files and folders, and caches, are left out. Raises DataError for a folder that cannot be
    read, and for a link to a folder that contains the link.
    """
    files, left_out = list[str](), Counter[str]()
    top = str(root / folder)
    for parent, folders, names in walk_links(root, folder, _refuse):
        left_out += _cached(Path(parent), folders)
        folders[:] = filter(is_visible, folders)
        inside = f"{folder}{parent[len(top) :].replace(os.sep, '/')}/".lstrip("/")
        visible, hidden = _without_hidden(names)
        left_out += hidden
        # As texts: a Path for each of a million files takes longer than the rest of the plan.
        files += [inside + name for name in visible]
    return Files(sorted(files), left_out)


def _without_hidden(names: Sequence[str]) -> tuple[list[str], Counter[str]]:
    visible = [name for name in names if name[0] != "."]
    return visible, +Counter({"hidden": len(names) - len(visible)})


def _cached(place: Path, names: Iterable[str]) -> Counter[str]:
    """Return the number of files in each hidden folder and cache among some folders of a place."""
    caches = [name for name in names if not is_visible(name)]
    return +Counter({f"in {name}": _count_files(place / name) for name in caches})


def _count_files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _refuse(error: OSError) -> None:
    raise DataError(f"{Path(error.filename).name} cannot be read ({error.strerror})") from error
