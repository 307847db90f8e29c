"""What a run prints: the plan, its progress, and the scores."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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

from vlbench.adapter_kit.servers import host_of
from vlbench.boards.board import Board
from vlbench.boards.privacy import shown
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.commands.parser import output_option
from vlbench.data.records import Data
from vlbench.errors import counted, printed
from vlbench.report.pivot import grid, mark_notes, pivots, together
from vlbench.report.terminal import Texts, board_tables
from vlbench.report.texts import fitted, plain_table
from vlbench.results import Result
from vlbench.run.execute import Report
from vlbench.run.job import Job
from vlbench.run.plan import Plan, missing_weights

# Off a terminal, seconds between two lines about one pass.
LINE_SECONDS = 60.0

# The number of tasks that have a table each at the end of a run.
FEW = 3


class Pass(NamedTuple):
    """A pass over `total` rows: what it does, when it started, and when it was last reported."""

    what: str
    total: int
    started: float
    reported: float


def say(console: Console, line: str) -> None:
    """Print a line unchanged, unless it is empty; on a terminal it is wrapped between words."""
    if not line:
        return
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

    Of a plan, what its `print_plan` told as skipped is not told again, and results are numbered.
    """

    def __init__(self, console: Console, planned: Plan | None = None) -> None:
        self._console = console
        jobs = planned.jobs if planned else []
        self._told = {_names(job) for job in jobs if job.status == "skipped"}
        self._numbers = _numbers(jobs)
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
        """Print how a task ended; tasks that a model skips for one reason stand in one line.

        The reason of several failures is told with the first.
        """
        if (result.model, result.task) in self._told:
            return
        if result.status == "skipped" and not result.notes:
            key = (result.model, result.reason)
            self._skipped.setdefault(key, []).append(result.task)
            return
        seconds = f" in {result.run['seconds']:.1f} s" if result.run else ""
        # A row without scores has no place for its notes but this line.
        why = [result.reason, *([] if result.scores else result.notes)]
        reason = "".join(f": {one}" for one in why if one)
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


def _names(job: Job) -> tuple[str, str]:
    return job.model.name, job.task.spec.name


def _numbers(jobs: Sequence[Job]) -> dict[tuple[str, str], str]:
    """Return the place of each job that runs among them, such as `[3/22] `."""
    running = [_names(job) for job in jobs if job.status == "run"]
    return {names: f"[{i}/{len(running)}] " for i, names in enumerate(running, 1)}


# What the plan calls jobs that do not run here, after those that do.
CALLED = ("run", "kept", "want data", "want weights", "skipped", "failed")


def _called(job: Job) -> str:
    lacks = "want weights" if job.wants_weights else job.status
    return "want data" if lacks == "unavailable" else lacks


def print_plan(console: Console, planned: Plan, *, verbose: bool = False) -> None:
    """Print the plan as counts, what runs, what runs again and why, and weights that lack.

    What is skipped, kept, failed or has no data is told, too, where nothing runs, or if `verbose`.
    """
    counts = Counter(map(_called, planned.jobs))
    told = [f"{counts[name]} {name}" for name in CALLED if counts[name]]
    why = verbose or not counts["run"]
    hint = "" if why or len(told) == 1 else "; -v says why"
    say(console, f"plan: {', '.join(told)}{hint}")
    _say_jobs(console, [replace(job, reason="") for job in planned.jobs if job.status == "run"])
    _say_jobs(console, [job for job in planned.jobs if job.status == "run" and job.reason])
    for line in missing_weights(planned.jobs):
        say(console, f"no weights: {line}")
    for line in [*_missing(planned), *_left_out(planned), *_sent_away(planned)]:
        say(console, line)
    if why:
        hidden = ("run", "want data", "want weights")
        _say_jobs(console, [job for job in planned.jobs if _called(job) not in hidden])
        absent = [job for job in planned.jobs if job.status == "unavailable"]
        _print_absent(console, {job.task.spec.name: job.reason for job in absent})


def _say_jobs(console: Console, jobs: Sequence[Job]) -> None:
    """Print a line for models that have the same tasks, below a line for each status and reason."""
    causes: dict[tuple[str, str], dict[str, list[str]]] = {}
    for job in jobs:
        model, task = _names(job)
        causes.setdefault((job.status, job.reason), {}).setdefault(model, []).append(task)
    for (status, reason), tasks in causes.items():
        models: dict[tuple[str, ...], list[str]] = {}
        for model, several in tasks.items():
            models.setdefault(tuple(several), []).append(model)
        say(console, f"{status}{': ' if reason else ''}{reason}")
        for own, alike in models.items():
            say(console, f"  {', '.join(alike)}: {', '.join(own)}")


def _missing(planned: Plan) -> list[str]:
    """Return once what the data of a task lack, for which scores are marked partial."""
    of_tasks = {job.task.spec.name: job.data for job in planned.jobs if job.data}
    return [
        f"partial data of {task}: {split} lacks {n:,} of {data.expected[split]:,} rows"
        for task, data in of_tasks.items()
        for split, n in data.missing_rows().items()
    ]


def _left_out(planned: Plan) -> list[str]:
    """Return once what the data of a task leave out."""
    of_tasks = {job.task.spec.name: job.data.dropped for job in planned.jobs if job.data}
    return [
        f"left out of the data of {task}: {n:,} {what}"
        for task, dropped in of_tasks.items()
        for what, n in dropped.items()
    ]


def _sent_away(planned: Plan) -> list[str]:
    """Return how much the jobs that run send to which host."""
    return [
        f"{shown(model.served)} on {job.task.spec.name}: {_contents(job.data)} will be sent to "
        f"{host_of(model.address)}"
        for job in planned.jobs
        if job.status == "run" and job.data
        for model in job.models()
        if model.served is not None and model.address is not None
    ]


def _contents(data: Data) -> str:
    """Return of how many rows of data there are images and texts, or texts alone."""
    columns = {name for split in data.splits.values() for name in split.columns}
    kinds = "images and texts" if columns & {"image", "picture"} else "texts"
    return f"{kinds} of {counted(sum(map(len, data.splits.values())), 'row')}"


def print_report(console: Console, planned: Plan, report: Report) -> None:
    """Print the scores, kept rows included, where their boards are, and what comes next.

    A few tasks have a table each, with all that is said of a score; more are models x tasks.
    """
    specs = {job.task.spec.name: job.task.spec for job in planned.jobs}
    boards = _boards_of(specs, report)
    if len(boards) > FEW:
        found = pivots(None, boards, load_catalog(planned.options.include_path), {})
        head, *rows = grid(together(boards, found))
        _print_table(console, Texts(head, rows, "", head[1:], numbers=True))
        say(console, mark_notes(found))
    else:
        for board in boards:
            for text in board_tables(board, {}, specs[board.task]):
                _print_table(console, text)
    _print_absent(console, report.absent)
    output, limit = planned.options.output, planned.options.limit
    if report.results and limit is not None:
        say(console, f"no board was written because of --limit {limit}")
    elif boards and output:
        folder = output_option(output)
        more = f"; in full: vlbench leaderboard show {boards[0].task}{folder}"
        told = more if len(boards) > FEW else ""
        say(console, f"{counted(len(boards), 'board')} in {output}{told}")
        say(console, f"next: vlbench leaderboard build{folder}")


def _print_table(console: Console, texts: Texts) -> None:
    console.print(fitted(plain_table(**texts._asdict()), console.width))


def _boards_of(specs: Mapping[str, TaskSpec], report: Report) -> list[Board]:
    """Return the boards that the results with scores would make by themselves, by task."""
    ok = [result for result in report.results if result.status == "ok"]
    return [
        Board(
            task=task,
            version=specs[task].version,
            paper=specs[task].paper,
            primary=specs[task].primary_score,
            results=[result for result in ok if result.task == task],
        )
        for task in dict.fromkeys(result.task for result in ok)
    ]


def _print_absent(console: Console, reasons: Mapping[str, str]) -> None:
    tasks: dict[str, list[str]] = {}
    for task, reason in reasons.items():
        tasks.setdefault(reason, []).append(task)
    for reason, names in tasks.items():
        say(console, f"unavailable: {', '.join(names)}: {reason}")
