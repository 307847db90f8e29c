"""What a run prints, before and after: the plan, and the scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from vlbench.bench import Plan, Report
from vlbench.leaderboard.tables import plain_table, score_table


def print_plan(console: Console, planned: Plan) -> None:
    """Print what will run and what not; absent data once, with the tasks that lack them."""
    here = [cell for cell in planned.cells if cell.status != "unavailable"]
    rows = [[c.model.name, c.task.spec.name, c.status, c.reason] for c in here]
    console.print(plain_table(["model", "task", "plan", "why"], rows))
    absent = {c.task.spec.name: c.reason for c in planned.cells if c.status == "unavailable"}
    _print_absent(console, absent)


def print_report(console: Console, planned: Plan, report: Report) -> None:
    """Print a table of scores for each task, of what ran and what was kept."""
    rows: dict[str, list[Any]] = {}
    for result in report.results:
        rows.setdefault(result.task, []).append(result.row())
    primaries = {cell.task.spec.name: cell.task.primary for cell in planned.cells}
    for task, found in rows.items():
        ok = [row for row in found if row["status"] == "ok"]
        if ok:
            console.print(score_table(task, primaries[task], ok))
    _print_absent(console, report.absent)


def _print_absent(console: Console, reasons: Mapping[str, str]) -> None:
    tasks: dict[str, list[str]] = {}
    for task, reason in reasons.items():
        tasks.setdefault(reason, []).append(task)
    for reason, names in tasks.items():
        line = f"unavailable: {', '.join(names)}: {reason}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
