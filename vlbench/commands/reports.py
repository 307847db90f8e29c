"""What a run prints, before and after: the plan, and the scores."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from vlbench.commands.progress import say
from vlbench.leaderboard.fitting import fitted
from vlbench.leaderboard.tables import plain_table, score_table
from vlbench.planning.plan import Plan
from vlbench.running.report import Report


def print_plan(console: Console, planned: Plan) -> None:
    """Print what will run and what not; absent data once, with the tasks that lack them."""
    here = [job for job in planned.jobs if job.status != "unavailable"]
    rows = [[job.model.name, job.task.spec.name, job.status, job.reason] for job in here]
    if rows:
        table = plain_table(["model", "task", "plan", "why"], rows)
        console.print(fitted(table, console.width))
    absent = [job for job in planned.jobs if job.status == "unavailable"]
    _print_absent(console, {job.task.spec.name: job.reason for job in absent})


def print_report(console: Console, planned: Plan, report: Report) -> None:
    """Print a table of scores for each task, of what ran and what was kept."""
    primaries = {job.task.spec.name: job.task.spec.primary_score for job in planned.jobs}
    ok = [result for result in report.results if result.status == "ok"]
    for task in dict.fromkeys(result.task for result in report.results):
        found = [result for result in ok if result.task == task]
        if found:
            table = score_table(task, primaries[task], found)
            console.print(fitted(table, console.width))
    if report.results and planned.options.limit is not None:
        console.print(f"no board was written because of --limit {planned.options.limit}")
    _print_absent(console, report.absent)


def _print_absent(console: Console, reasons: Mapping[str, str]) -> None:
    tasks: dict[str, list[str]] = {}
    for task, reason in reasons.items():
        tasks.setdefault(reason, []).append(task)
    for reason, names in tasks.items():
        say(console, f"unavailable: {', '.join(names)}: {reason}")
