"""`vlbench leaderboard reproduce`: compare the numbers and findings of papers with boards."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from rich.table import Table

from vlbench.catalog.catalog import load_all_findings, load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import add_output, add_paper
from vlbench.report.export import csv
from vlbench.report.reproduction import (
    COLUMNS,
    NOTE,
    find_papers,
    grids,
    lines,
    of_other_tasks,
    reproduce,
    summary,
    summary_of_source,
)
from vlbench.report.texts import plain_table

# Printed below the tables.
OTHERS = "Tasks of no paper above, such as those of recorded answers"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the paper and the format."""
    add_paper(parser)
    parser.add_argument(
        "--format",
        choices=("csv", "md", "tex"),
        help="default: for a terminal; csv also lists what was not measured, and why",
    )
    add_output(parser)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return published values and findings beside the results on boards."""
    catalog = load_catalog(arguments.include_path)
    papers = find_papers(load_all_findings(catalog, arguments.include_path), arguments.paper)
    reproductions = [reproduce(paper, catalog, arguments.output) for paper in papers]
    if arguments.format == "csv":
        rows = [line.numbers for reproduction in reproductions for line in lines(reproduction)]
        return Answer([csv.lines(COLUMNS, rows).removesuffix("\r\n")])
    if arguments.format:
        form: Any = import_module(f"vlbench.report.export.{arguments.format}")
        tables = [form.grid(grid) for reproduction in reproductions for grid in grids(reproduction)]
        return Answer([table.removesuffix("\n") for table in tables])
    parts: list[str | Table] = []
    for reproduction in reproductions:
        parts.append("\n".join(summary(reproduction)))
        parts += [plain_table(grid.head, grid.rows) for grid in grids(reproduction)]
    if not arguments.paper:
        others = of_other_tasks(papers, catalog, arguments.output).values()
        parts += ["\n".join([OTHERS, *map(summary_of_source, others)])] if others else []
    return Answer([*parts, *([NOTE] if any(map(grids, reproductions)) else [])])
