"""Progress of a run: bars with the time left on a terminal; elsewhere a line a minute."""

from __future__ import annotations

from time import monotonic
from typing import NamedTuple, Self

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

# Off a terminal, seconds between two lines about one pass.
LINE_SECONDS = 60.0


class Pass(NamedTuple):
    """A pass over `total` rows: what it does, when it started, and when a line last said so."""

    what: str
    total: int
    started: float
    told: float


class Bar:
    """Shows each pass over the data as a bar, or off a terminal in lines, and each result."""

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
        self._pass: Pass | None = None
        self._done = 0

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
        now = monotonic()
        self._pass, self._done = Pass(what, total, now, now), 0

    def advance(self, rows: int) -> None:
        """Advance the bar by some rows."""
        if self._current is not None:
            self._bars.advance(self._current, rows)
        self._done += rows
        if self._bars.disable and self._pass:
            self._tell(self._pass, monotonic())

    def done(self, result: Result) -> None:
        """Print how a task ended."""
        seconds = f" in {result.run['seconds']:.1f} s" if result.run else ""
        # A row without scores has no place for its notes but this line.
        why = [result.reason, *([] if result.scores else result.notes)]
        reason = "".join(f": {one}" for one in why if one)
        line = f"{result.model} · {result.task}: {result.status}{seconds}{reason}"
        self._console.print(printed(line), highlight=False, markup=False, soft_wrap=True)

    def _tell(self, current: Pass, now: float) -> None:
        """Print how far a pass is, once in a while."""
        if now - current.told < LINE_SECONDS or not 0 < self._done < current.total:
            return
        left = (now - current.started) * (current.total - self._done) / self._done
        many = f"{self._done} of {current.total}, {left / 60:.0f} min left"
        line = f"{self._cell}: {current.what}: {many}"
        self._console.print(printed(line), highlight=False, markup=False, soft_wrap=True)
        self._pass = current._replace(told=now)

    def _show(self, what: str, total: int | None) -> None:
        if self._current is not None:
            self._bars.remove_task(self._current)
        self._current = self._bars.add_task(printed(f"{self._cell}: {what}"), total=total)
