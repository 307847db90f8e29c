"""The output of a run: the plan, and the scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from vlbench.adapter_kit.servers import host_of
from vlbench.boards.board import Board
from vlbench.boards.privacy import shown
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.commands.parser import output_option
from vlbench.data.records import Data
from vlbench.engine.progress import Bar
from vlbench.errors import counted
from vlbench.report.pivot import grid, mark_notes, pivots, row_notes, together
from vlbench.report.terminal import board_tables, note_texts
from vlbench.report.texts import fitted, plain_table
from vlbench.run.execute import Report
from vlbench.run.job import Job
from vlbench.run.plan import Plan, missing_weights
from vlbench.system.console import say

# Up to this many tasks have separate tables at the end of a run.
FEW = 3

# The words for statuses of jobs in the plan, in the order in which they are printed.
CALLED = ("run", "kept", "missing data", "missing weights", "skipped", "failed")


def open_bar(console: Console, planned: Plan) -> Bar:
    """Return the bar of a plan; skipped jobs, which `print_plan` printed, are not printed again.

    Each job that runs has its position among these jobs, such as `[3/22] `.
    """
    skipped = {_names(job) for job in planned.jobs if job.status == "skipped"}
    running = [_names(job) for job in planned.jobs if job.status == "run"]
    numbers = {names: f"[{i}/{len(running)}] " for i, names in enumerate(running, 1)}
    return Bar(console, skipped, numbers)


def _names(job: Job) -> tuple[str, str]:
    return job.model.name, job.task.spec.name


def _name_status(job: Job) -> str:
    lacks = "missing weights" if job.wants_weights else job.status
    return "missing data" if lacks == "unavailable" else lacks


def print_plan(console: Console, planned: Plan, *, verbose: bool = False) -> None:
    """Print the plan: counts, jobs that run, jobs that run again and why, and missing weights.

    Skipped, kept and failed jobs and missing data are also listed if nothing runs or `verbose` is
    set.
    """
    counts = Counter(map(_name_status, planned.jobs))
    parts = [f"{counts[name]} {name}" for name in CALLED if counts[name]]
    why = verbose or not counts["run"]
    hint = "" if why or len(parts) == 1 else "; -v says why"
    say(console, f"plan: {', '.join(parts)}{hint}")
    _say_jobs(console, [replace(job, reason="") for job in planned.jobs if job.status == "run"])
    _say_jobs(console, [job for job in planned.jobs if job.status == "run" and job.reason])
    for line in missing_weights(planned.jobs):
        say(console, f"no weights: {line}")
    for line in [*_tell_missing(planned), *_tell_dropped(planned), *_tell_sent(planned)]:
        say(console, line)
    if why:
        hidden = ("run", "missing data", "missing weights")
        _say_jobs(console, [job for job in planned.jobs if _name_status(job) not in hidden])
        absent = [job for job in planned.jobs if job.status == "unavailable"]
        _print_absent(console, {job.task.spec.name: job.reason for job in absent})


def _say_jobs(console: Console, jobs: Sequence[Job]) -> None:
    """Print a line for each status and reason, and below it lines for models with equal tasks."""
    causes: dict[tuple[str, str], dict[str, list[str]]] = {}
    for job in jobs:
        model, task = _names(job)
        causes.setdefault((job.status, job.reason), {}).setdefault(model, []).append(task)
    for (status, reason), tasks in causes.items():
        models: dict[tuple[str, ...], list[str]] = {}
        for model, names in tasks.items():
            models.setdefault(tuple(names), []).append(model)
        say(console, f"{status}{': ' if reason else ''}{reason}")
        for shared, alike in models.items():
            say(console, f"  {', '.join(alike)}: {', '.join(shared)}")


def _tell_missing(planned: Plan) -> list[str]:
    """Return a line for each split with missing rows; scores of such data are marked partial."""
    of_tasks = {job.task.spec.name: job.data for job in planned.jobs if job.data}
    return [
        f"partial data of {task}: {split} lacks {n:,} of {data.expected[split]:,} rows"
        for task, data in of_tasks.items()
        for split, n in data.missing_rows().items()
    ]


def _tell_dropped(planned: Plan) -> list[str]:
    """Return a line for each kind of rows that data leave out, with the tasks."""
    tasks: dict[str, dict[str, None]] = {}
    for job in planned.jobs:
        for what, n in job.data.dropped.items() if job.data else ():
            tasks.setdefault(f"{n:,} {what}", {})[job.task.spec.name] = None
    return [f"left out of the data of {', '.join(of)}: {what}" for what, of in tasks.items()]


def _tell_sent(planned: Plan) -> list[str]:
    """Return how much the jobs that run will send to which host."""
    return [
        f"{shown(model.served)} on {job.task.spec.name}: {_contents(job.data)} will be sent to "
        f"{host_of(model.address)}"
        for job in planned.jobs
        if job.status == "run" and job.data
        for model in job.models()
        if model.served is not None and model.address is not None
    ]


def _contents(data: Data) -> str:
    """Return the number of rows, and whether they have images and texts or only texts."""
    columns = {name for split in data.splits.values() for name in split.columns}
    kinds = "images and texts" if columns & {"image", "picture"} else "texts"
    return f"{kinds} of {counted(sum(map(len, data.splits.values())), 'row')}"


def print_report(console: Console, planned: Plan, report: Report) -> None:
    """Print the scores, including kept rows, the folder of the boards, and the next command.

    Up to `FEW` tasks have separate tables with all details; more are printed as models x tasks.
    """
    specs = {job.task.spec.name: job.task.spec for job in planned.jobs}
    boards = _boards_of(specs, report)
    if len(boards) > FEW:
        tables = pivots(boards, load_catalog(planned.options.include_path), {}, all_rows=True)
        table = grid(together(boards, tables))
        _print_text(console, plain_table(table.head, table.rows, "", table.head[1:], numbers=True))
        say(console, "\n".join([mark_notes(tables), *note_texts(row_notes(tables))]))
    else:
        for board in boards:
            for text in board_tables(board, {}, specs[board.task]):
                _print_text(console, text)
    _print_absent(console, report.absent)
    output, limit = planned.options.output, planned.options.limit
    if report.results and limit is not None:
        say(console, f"no board was written because of --limit {limit}")
    elif boards and output:
        folder = output_option(output)
        more = f"; in full: vlbench leaderboard show {boards[0].task}{folder}"
        hint = more if len(boards) > FEW else ""
        say(console, f"{counted(len(boards), 'board')} in {output}{hint}")
        say(console, f"next: vlbench leaderboard build{folder}")


def _print_text(console: Console, text: Table | str) -> None:
    if isinstance(text, str):
        say(console, text)
    else:
        console.print(fitted(text, console.width))


def _boards_of(specs: Mapping[str, TaskSpec], report: Report) -> list[Board]:
    """Return boards of only the results with scores, by task."""
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
