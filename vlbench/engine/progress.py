"""Who hears how far a run is."""

from __future__ import annotations

from typing import Protocol

from vlbench.results import Result


class Progress(Protocol):
    """Hears how far a run is."""

    def begin(self, model: str, task: str) -> None:
        """Hear that a model starts on a task."""
        ...

    def start(self, what: str, total: int) -> None:
        """Hear that a pass over `total` rows starts."""
        ...

    def advance(self, rows: int) -> None:
        """Hear that rows are done."""
        ...

    def done(self, result: Result) -> None:
        """Hear how a task ended."""
        ...


class Silence:
    """Hears and says nothing."""

    def begin(self, model: str, task: str) -> None:
        """Ignore."""

    def start(self, what: str, total: int) -> None:
        """Ignore."""

    def advance(self, rows: int) -> None:
        """Ignore."""

    def done(self, result: Result) -> None:
        """Ignore."""
