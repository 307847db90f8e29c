"""How far a run is: bars with the time left on a terminal, a line for each result elsewhere."""

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

from vlbench.results import Result


class Bar:
    """Shows each pass over the data as a bar, and each result as a line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            TextColumn("{task.description}"),
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
        """Take the terminal's last line."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal's last line back."""
        self._bars.stop()

    def begin(self, model: str, task: str) -> None:
        """Say what is under way."""
        self._cell = f"{model} · {task}"
        self._show("loading", None)

    def start(self, what: str, total: int) -> None:
        """Begin a bar of `total` rows."""
        self._show(what, total)

    def advance(self, rows: int) -> None:
        """Move the bar on."""
        if self._current is not None:
            self._bars.advance(self._current, rows)

    def done(self, result: Result) -> None:
        """Print how a task ended."""
        seconds = f" in {result.run['seconds']:.1f} s" if result.run else ""
        reason = f": {result.reason}" if result.reason else ""
        line = f"{result.model} · {result.task}: {result.status}{seconds}{reason}"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _show(self, what: str, total: int | None) -> None:
        if self._current is not None:
            self._bars.remove_task(self._current)
        self._current = self._bars.add_task(f"{self._cell}: {what}", total=total)
