"""Progress: what a run reports while it goes on."""

from __future__ import annotations

from typing import Protocol

from vlbench.results import Result


class Progress(Protocol):
    """Receives the progress of a run."""

    def begin(self, model: str, task: str) -> None:
        """Show that a model starts on a task."""
        ...

    def start(self, what: str, total: int) -> None:
        """Show that a pass over `total` rows starts."""
        ...

    def advance(self, rows: int) -> None:
        """Show that rows are done."""
        ...

    def done(self, result: Result) -> None:
        """Show how a task ended."""
        ...


class NoProgress:
    """Ignores the progress of a run."""

    def begin(self, model: str, task: str) -> None:
        """Ignore."""

    def start(self, what: str, total: int) -> None:
        """Ignore."""

    def advance(self, rows: int) -> None:
        """Ignore."""

    def done(self, result: Result) -> None:
        """Ignore."""
