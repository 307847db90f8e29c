"""Progress: the reports of a running evaluation, and the bar that shows them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

import rich.progress
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from vlbench.errors import printed
from vlbench.results import Result
from vlbench.system.console import say

# Seconds between two lines about one pass if the output is not a terminal.
LINE_SECONDS = 60.0


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


class Pass(NamedTuple):
    """A pass over `total` rows: its name, when it started, and when it was last reported."""

    what: str
    total: int
    started: float
    reported: float


class _Bars(rich.progress.Progress):
    """A bar below the line of its model and task, which may be as long as the terminal."""

    cell = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the parts to draw, from the top; rich calls this."""
        yield Text(self.cell)
        yield self.make_tasks_table(self.tasks)


class Bar:
    """Shows each pass over the data as a bar (as lines if not on a terminal), and each result.

    Skipped models and tasks in `seen` were already reported and are not printed. `numbers` contains
    prefixes of the names of a model and a task, such as `[3/22] `.
    """

    def __init__(
        self,
        console: Console,
        seen: Collection[tuple[str, str]] = (),
        numbers: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        self._console, self._told, self._numbers = console, seen, numbers
        # The bar fills the space that the numbers leave on the line.
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
            # Lines on the same terminal are printed above the bars; other streams are unchanged.
            redirect_stderr=bool(sys.stderr and sys.stderr.isatty()),
        )
        self._current: TaskID | None = None
        self._cell = ""
        self._pass: Pass | None = None
        self._done = 0
        self._skipped: dict[tuple[str, str], list[str]] = {}
        self._failed: dict[tuple[str, str], str] = {}

    def __enter__(self) -> Self:
        """Start drawing bars on the last line of the terminal."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing bars."""
        self._say_skipped()
        self._bars.stop()

    def begin(self, model: str, task: str) -> None:
        """Show which model is loaded for which task."""
        self._say_skipped()
        self._cell = f"{self._numbers.get((model, task), '')}{model} · {task}"
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
            self._report(self._pass, monotonic())

    def done(self, result: Result) -> None:
        """Print how a task ended; tasks that a model skips for the same reason share a line.

        If several tasks fail for the same reason, it is printed only for the first task.
        """
        if (result.model, result.task) in self._told:
            return
        if result.status == "skipped" and not result.notes:
            key = (result.model, result.reason)
            self._skipped.setdefault(key, []).append(result.task)
            return
        seconds = f" in {result.run['seconds']:.1f} s" if result.run else ""
        # Only this line shows the notes of a row without scores.
        why = [result.reason, *([] if result.scores else result.notes)]
        reason = "".join(f": {part}" for part in why if part)
        if result.status == "failed":
            first = self._failed.setdefault((result.model, reason), result.task)
            reason = reason if first == result.task else f": as on {first}"
        number = self._numbers.get((result.model, result.task), "")
        line = f"{number}{result.model} · {result.task}: {result.status}{seconds}{reason}"
        say(self._console, line)

    def _say_skipped(self) -> None:
        for (model, reason), tasks in self._skipped.items():
            say(self._console, f"{model} · {', '.join(tasks)}: skipped: {reason}")
        self._skipped = {}

    def _report(self, current: Pass, now: float) -> None:
        """Print the progress of a pass, if `LINE_SECONDS` have passed since the last such line."""
        if now - current.reported < LINE_SECONDS or not 0 < self._done < current.total:
            return
        left = (now - current.started) * (current.total - self._done) / self._done
        many = f"{self._done} of {current.total}, {left / 60:.0f} min left"
        line = f"{self._cell}: {current.what}: {many}"
        say(self._console, line)
        self._pass = current._replace(reported=now)

    def _show(self, what: str, total: int | None) -> None:
        if self._current is not None:
            self._bars.remove_task(self._current)
        self._bars.cell = printed(self._cell)
        self._current = self._bars.add_task(printed(what), total=total)
