"""The rule of `build`: a file is made anew only where what it was made of has changed.

The record of what was made lies in the cache and not beside the boards: what a folder says of
itself is not believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from vlbench.digests import bytes_digest, digest
from vlbench.errors import OutputError, UnknownNameError
from vlbench.files import MOST_BOARD, default_cache, read_text, write_whole

# The libraries that the numbers and the pictures depend on.
LIBRARIES = ("numpy", "scipy", "pyarrow", "matplotlib", "pillow")

# Called with a name, with what the files are made of, and with what makes and returns them.
Keep: TypeAlias = Callable[[str, Sequence[Any], Callable[[], list[Path]]], list[Path]]


def anew(name: str, parts: Sequence[Any], make: Callable[[], list[Path]]) -> list[Path]:
    """Make files whatever was made before."""
    del name, parts
    return make()


class Made:
    """The files that were made of a folder of boards, and of what."""

    def __init__(self, output: Path) -> None:
        self._output, self._new = output, dict[str, Any]()
        self._known: Any = {}
        with suppress(OSError, ValueError, UnknownNameError):
            self._known = json.loads(read_text(self._file(), MOST_BOARD))

    def keep(self, name: str, parts: Sequence[Any], make: Callable[[], list[Path]]) -> list[Path]:
        """Return the files that `make` makes and returns, which it made before where none changed.

        `parts` are plain values that they depend on, besides the code.
        """
        state = digest([_code(), *parts])
        was_made, files = self._known.get(name, ("", {}))
        if was_made == state and all(self._digest(file) == files[file] for file in files):
            self._new[name] = (state, files)
            return [self._output / file for file in files]
        written = make()
        names = [file.relative_to(self._output).as_posix() for file in written]
        self._new[name] = (state, {name: self._digest(name) for name in names})
        return written

    def save(self) -> None:
        """Write the record; without a cache, all is made anew the next time."""
        with suppress(OutputError, UnknownNameError):
            write_whole(self._file(), json.dumps(self._new).encode())

    def _file(self) -> Path:
        folder = digest(str(self._output.resolve())).removeprefix("sha256:")
        return default_cache() / "built" / f"{folder}.json"

    def _digest(self, name: str) -> str:
        try:
            return bytes_digest(self._output / name)
        except OSError:
            return ""


@cache
def _code() -> str:
    """Return the digest of vlbench's code and of the versions of the libraries: 10 ms."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return digest([*map(bytes_digest, files), *map(version, LIBRARIES)])
