"""What a run prints: the plan, its progress, estimates, and the scores."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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

from vlbench.errors import printed
from vlbench.planning.plan import Plan, missing_weights
from vlbench.report.table import table_of
from vlbench.report.terminal import score_table
from vlbench.report.texts import fitted, plain_table
from vlbench.results import Result
from vlbench.running.history import Step, total
from vlbench.running.jobs import Report

# Off a terminal, seconds between two lines about one pass.
LINE_SECONDS = 60.0


class Pass(NamedTuple):
    """A pass over `total` rows: what it does, when it started, and when it was last reported."""

    what: str
    total: int
    started: float
    reported: float


def say(console: Console, line: str) -> None:
    """Print a line unchanged; on a terminal it is wrapped between words."""
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
    """Shows each pass over the data as a bar, or off a terminal in lines, and each result.

    One that does not draw prints lines on a terminal too, as where several processes print.
    """

    def __init__(self, console: Console, *, draws: bool = True) -> None:
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
            disable=not (draws and console.is_terminal) or console.quiet,
            transient=True,
            # Lines on the same terminal are printed above the bars, others go where they went.
            redirect_stderr=bool(sys.stderr and sys.stderr.isatty()),
        )
        self._current: TaskID | None = None
        self._cell = ""
        self._pass: Pass | None = None
        self._done = 0
        self._skipped: dict[tuple[str, str], list[str]] = {}

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
            self._report(self._pass, monotonic())

    def done(self, result: Result) -> None:
        """Print how a task ended; tasks that a model skips for one reason stand in one line."""
        if result.status == "skipped" and not result.notes:
            key = (result.model, result.reason)
            self._skipped.setdefault(key, []).append(result.task)
            return
        seconds = f" in {result.run['seconds']:.1f} s" if result.run else ""
        # A row without scores has no place for its notes but this line.
        why = [result.reason, *([] if result.scores else result.notes)]
        reason = "".join(f": {one}" for one in why if one)
        line = f"{result.model} · {result.task}: {result.status}{seconds}{reason}"
        say(self._console, line)

    def _say_skipped(self) -> None:
        for (model, reason), tasks in self._skipped.items():
            say(self._console, f"{model} · {', '.join(tasks)}: skipped: {reason}")
        self._skipped = {}

    def _report(self, current: Pass, now: float) -> None:
        """Print how far a pass is, if `LINE_SECONDS` have passed since the last such line."""
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


# What the plan does not list: absent data and weights are told once for all, skips as they come.
UNLISTED = {"unavailable": "want data", "no weights": "want weights", "skipped": "skipped"}


def print_plan(console: Console, planned: Plan, *, skipped: bool = False) -> None:
    """Print the plan, and once the weights and each data set that cannot be had, with its tasks.

    Of the tasks that models skip, only the number is told, unless `skipped` asks for them.
    """
    shown = {*UNLISTED} - ({"skipped"} if skipped else set())
    here = [job for job in planned.jobs if job.status not in shown]
    rows = [[job.model.name, job.task.spec.name, job.status, job.reason] for job in here]
    counts = Counter(UNLISTED.get(job.status, job.status) for job in planned.jobs)
    order = dict.fromkeys(["run", "kept", *UNLISTED.values(), *counts])
    told = [f"{counts[status]} {status}" for status in order if counts[status]]
    say(console, f"plan: {', '.join(told)}")
    if rows:
        table = plain_table(["model", "task", "plan", "why"], rows)
        console.print(fitted(table, console.width))
    for line in missing_weights(planned.jobs):
        say(console, f"no weights: {line}")
    for line in _left_out(planned):
        say(console, line)
    absent = [job for job in planned.jobs if job.status == "unavailable"]
    _print_absent(console, {job.task.spec.name: job.reason for job in absent})


def _left_out(planned: Plan) -> list[str]:
    """Return once what the data of a task leave out."""
    of_tasks = {job.task.spec.name: job.data.dropped for job in planned.jobs if job.data}
    return [
        f"left out of the data of {task}: {n:,} {what}"
        for task, dropped in of_tasks.items()
        for what, n in dropped.items()
    ]


def print_report(console: Console, planned: Plan, report: Report) -> None:
    """Print a table of scores for each task, kept rows included."""
    primaries = {job.task.spec.name: job.task.spec.primary_score for job in planned.jobs}
    ok = [result for result in report.results if result.status == "ok"]
    for task in dict.fromkeys(result.task for result in report.results):
        of_task = [result for result in ok if result.task == task]
        if of_task:
            texts = score_table(table_of(task, primaries[task], of_task))
            console.print(fitted(plain_table(**texts._asdict()), console.width))
    if report.results and planned.options.limit is not None:
        console.print(f"no board was written because of --limit {planned.options.limit}")
    _print_absent(console, report.absent)


def _print_absent(console: Console, reasons: Mapping[str, str]) -> None:
    tasks: dict[str, list[str]] = {}
    for task, reason in reasons.items():
        tasks.setdefault(reason, []).append(task)
    for reason, names in tasks.items():
        say(console, f"unavailable: {', '.join(names)}: {reason}")


def print_estimates(console: Console, steps: Sequence[Step], device: str) -> None:
    """Print the estimate of each step from earlier runs on this machine, and the total.

    `device` is the type of the device whose memory was measured.
    """
    for line in _lines(steps, "GPU memory" if device == "cuda" else "memory"):
        console.print(printed(line), markup=False, highlight=False)


def _lines(steps: Sequence[Step], memory: str) -> list[str]:
    if not steps:
        return []
    whole = total(steps)
    if whole is None:
        return ["no estimate of time, memory and disk: no earlier run here did any of this"]
    unknown = sum(step.past is None for step in steps)
    return [
        "estimated from earlier runs on this machine with the same settings:",
        *(f"{step.model} · {step.what}: {_estimate(step)}" for step in steps),
        f"time: {between(whole.least_seconds, whole.most_seconds)}",
        f"{memory}: up to {size(whole.most_memory_mb)} per process",
        f"disk: up to {size(whole.most_stored_mb)} in the cache folder",
        *([f"not counted: {unknown} of {len(steps)} steps, without an estimate"] * bool(unknown)),
    ]


def _estimate(step: Step) -> str:
    if step.past is None:
        return "no estimate"
    models = f"{step.others} other model" + ("s" if step.others > 1 else "")
    basis = f" (of {models})" if step.others else ""
    return between(step.past.least_seconds, step.past.most_seconds) + basis


def between(least: float, most: float) -> str:
    """Return a range of seconds in words, such as `2 to 8 s` or `50 s to 3 min`."""
    low, high = lasting(least), lasting(most)
    if low == high:
        return low
    (number, _, unit), same = low.rpartition(" "), high.rpartition(" ")[2]
    return f"{number if unit == same else low} to {high}"


def lasting(seconds: float) -> str:
    """Return seconds in their natural unit: s, min or h."""
    unit, length = ("s", 1) if seconds < 59.5 else ("min", 60) if seconds < 3570 else ("h", 3600)
    return f"{_short(seconds / length)} {unit}"


def size(megabytes: float) -> str:
    """Return megabytes as MB or GB."""
    is_large = megabytes >= 999.5
    return f"{_short(megabytes / 1024)} GB" if is_large else f"{_short(megabytes)} MB"


def _short(number: float) -> str:
    return f"{number:.1f}" if number < 9.95 else f"{number:.0f}"
