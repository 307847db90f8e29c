"""Progress of a run: bars with the time left on a terminal; elsewhere a line a minute."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from time import monotonic
from typing import NamedTuple, Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

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


def say(console: Console, line: str) -> None:
    """Print a line as it is, on a terminal broken between its words."""
    wraps = not console.is_terminal
    console.print(printed(line), highlight=False, markup=False, soft_wrap=wraps)


class _Bars(Progress):
    """A bar below the line that names its model and task, which may be as long as a terminal."""

    cell = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield what is drawn, from the top; rich calls this."""
        yield Text(self.cell)
        yield self.make_tasks_table(self.tasks)


class Bar:
    """Shows each pass over the data as a bar, or off a terminal in lines, and each result."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # The bar has what the numbers leave of the line.
        self._bars = _Bars(
            TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
            BarColumn(None, table_column=Column(ratio=1)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TextColumn("left", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            expand=True,
            console=console,
            disable=not console.is_terminal or console.quiet,
            transient=True,
            # Lines on the same terminal are printed above the bars, others go where they went.
            redirect_stderr=bool(sys.stderr and sys.stderr.isatty()),
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
        say(self._console, line)

    def _tell(self, current: Pass, now: float) -> None:
        """Print how far a pass is, once in a while."""
        if now - current.told < LINE_SECONDS or not 0 < self._done < current.total:
            return
        left = (now - current.started) * (current.total - self._done) / self._done
        many = f"{self._done} of {current.total}, {left / 60:.0f} min left"
        line = f"{self._cell}: {current.what}: {many}"
        say(self._console, line)
        self._pass = current._replace(told=now)

    def _show(self, what: str, total: int | None) -> None:
        if self._current is not None:
            self._bars.remove_task(self._current)
        self._bars.cell = printed(self._cell)
        self._current = self._bars.add_task(printed(what), total=total)
