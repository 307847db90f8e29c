"""Cache of a server's answers: in memory, and in a file that several processes append to."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vlbench.digests import digest
from vlbench.errors import OutputError


class Answers:
    """Answers under the digest of their request, and in a file if a path is given.

    A record is a line break and a line of JSON, appended in one write, so a torn record does not
    damage other records.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lines: dict[str, bytes] = {}
        if file and file.exists():
            with file.open("rb") as stream:
                for line in stream:
                    self._remember(line)

    def get(self, asked: Any, compute: Callable[[], Any]) -> Any:
        """Return the cached answer as plain values, or call `compute` and cache its result.

        Raises OutputError if the file cannot be written.
        """
        key = digest(asked)
        if key not in self._lines:
            self._lines[key] = json.dumps([key, compute()]).encode()
            self._append(self._lines[key])
        return json.loads(self._lines[key])[1]

    def _remember(self, line: bytes) -> None:
        with suppress(ValueError, TypeError, RecursionError):
            key, _ = json.loads(line)
            self._lines[key] = line.strip()

    def _append(self, line: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab", buffering=0) as stream:
                stream.write(b"\n" + line)
        except OSError as error:
            raise OutputError(f"cannot write {self._file}: {error.strerror}") from error
