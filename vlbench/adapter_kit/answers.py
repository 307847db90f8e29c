"""Cache of a server's answers: in memory, and in a file that several processes append to."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vlbench.capabilities import ROUNDING, ROUNDING_OF_SUM
from vlbench.errors import OutputError, counted
from vlbench.system.digests import digest

LOGGER = logging.getLogger(__name__)

# What log-probabilities of several tokens must be, in a message.
DISTRIBUTION = (
    f"log-probabilities must be at most 0, up to {ROUNDING}, and their probabilities must sum to "
    f"at most 1, up to {ROUNDING_OF_SUM}"
)

# States whether plain values are a valid answer.
Check = Callable[[Any], bool]


def are_log_probabilities(logs: Sequence[float]) -> bool:
    """Return whether numbers can be the log-probabilities of different tokens, see DISTRIBUTION."""
    is_each = all(log <= ROUNDING for log in logs)
    return is_each and sum(map(math.exp, logs)) <= 1 + ROUNDING_OF_SUM


class KeptAnswers:
    """Answers under the digest of their request, and in a file if a path is given.

    A record is a line break and a line of JSON, appended in one write, so a torn record does not
    damage other records. A record whose answer `is_valid` does not accept is left out, with a
    warning.
    """

    def __init__(self, file: Path | None = None, is_valid: Check = lambda _: True) -> None:
        self._file = file
        self._lines: dict[str, bytes] = {}
        if file and file.exists():
            damaged = set[str]()
            with file.open("rb") as stream:
                for line in stream:
                    self._remember(line, is_valid, damaged)
            self._warn(len(damaged - self._lines.keys()))

    def find(self, request: Any, is_valid: Check) -> Any:
        """Return the cached answer as plain values; None if there is no valid answer."""
        line = self._lines.get(digest(request))
        if line is None:
            return None
        answer = json.loads(line)[1]
        if is_valid(answer):
            return answer
        self._warn(1)
        return None

    def keep(self, request: Any, answer: Any) -> None:
        """Cache an answer of plain values. Raises OutputError if the file cannot be written."""
        key = digest(request)
        self._lines[key] = json.dumps([key, answer]).encode()
        self._append(self._lines[key])

    def _remember(self, line: bytes, is_valid: Check, damaged: set[str]) -> None:
        with suppress(ValueError, TypeError, RecursionError):
            key, answer = json.loads(line)
            if is_valid(answer):
                self._lines[key] = line.strip()
            else:
                damaged.add(key)

    def _warn(self, count: int) -> None:
        if count:
            what = f"{counted(count, 'kept answer')} of another form"
            LOGGER.warning("%s: %s; requested again", self._file, what)

    def _append(self, line: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab", buffering=0) as stream:
                stream.write(b"\n" + line)
        except OSError as error:
            raise OutputError(f"cannot write {self._file}: {error.strerror}") from error
