"""`vlbench leaderboard build`: write summaries of groups, and figures."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection
from typing import Any

from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import add_output, add_trust, output_option
from vlbench.errors import UnknownNameError, counted


def add_options(build: argparse.ArgumentParser) -> None:
    """Add the options for the folder of boards."""
    add_output(build)
    add_trust(build)


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the files; return their numbers, and why groups have no summary.

    The exit code is 1 if a figure of a task failed; its reason is logged.
    """
    from vlbench.report.building import build, why_no_summary

    boards = {file.stem for file in arguments.output.glob("*.json")}
    if not boards:
        raise UnknownNameError(f"no boards in {arguments.output}")
    catalog = load_catalog(arguments.include_path)
    written, failed = build(arguments.output, catalog, _figures(arguments, catalog, boards))
    groups = {name: task.group for name, task in catalog.tasks.items() if task.group}
    begun = {name for name, tasks in groups.items() if boards & {*tasks}}
    kinds = Counter(file.relative_to(arguments.output).parts[0] for file in written)
    written_by_kind = ", ".join(f"{count} in {kind}/" for kind, count in sorted(kinds.items()))
    lacking = sorted(begun - {file.stem for file in written})
    return Answer(
        [
            f"wrote {counted(len(written), 'file')} below {arguments.output}: {written_by_kind}",
            *(f"{name}: {why_no_summary(arguments.output, groups[name])}" for name in lacking),
            f"next: vlbench leaderboard page{output_option(arguments.output)}",
        ],
        code=FAILED if failed else 0,
    )


def _figures(
    arguments: argparse.Namespace, catalog: Catalog, boards: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Return the functions that draw the figures of each task that has a board here."""
    tasks = [task for name, task in catalog.tasks.items() if task.figures and name in boards]
    if not tasks:
        return {}
    # Imported here: it takes seconds.
    from vlbench.run.figures import find_figures
    from vlbench.run.options import Options

    options = Options(include_path=arguments.include_path, trust=arguments.trust)
    return {task.name: find_figures(task, options) for task in tasks}
