"""Progress of a run: bars with the time left on a terminal, one line per result elsewhere."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from vlbench.leaderboard.texts import printed
from vlbench.results import Result


class Bar:
    """Shows each pass over the data as a bar, and each result as a line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._current: TaskID | None = None
        self._cell = ""

    def __enter__(self) -> Self:
        """Start drawing bars on the last line of the terminal."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing bars."""
        self._bars.stop()

    def begin(self, model: str, task: str) -> None:
        """Show which model is loaded for which task."""
        self._cell = f"{model} · {task}"
        self._show("loading", None)

    def start(self, what: str, total: int) -> None:
        """Start a bar of `total` rows."""
        self._show(what, total)

    def advance(self, rows: int) -> None:
        """Advance the bar by some rows."""
        if self._current is not None:
            self._bars.advance(self._current, rows)

    def done(self, result: Result) -> None:
        """Print how a task ended."""
        seconds = f" in {result.run['seconds']:.1f} s" if result.run else ""
        reason = f": {result.reason}" if result.reason else ""
        line = f"{result.model} · {result.task}: {result.status}{seconds}{reason}"
        self._console.print(printed(line), highlight=False, markup=False, soft_wrap=True)

    def _show(self, what: str, total: int | None) -> None:
        if self._current is not None:
            self._bars.remove_task(self._current)
        self._current = self._bars.add_task(printed(f"{self._cell}: {what}"), total=total)
