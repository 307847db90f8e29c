"""`vlbench leaderboard findings`: show for which models the findings of papers hold."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from vlbench.catalog.catalog import load_all_claims, load_catalog
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import add_output
from vlbench.errors import counted
from vlbench.leaderboard.export import csv
from vlbench.leaderboard.findings import COLUMNS, NOTE, Row, by_model, cells, lines, read_findings

TITLE = "Findings by model"


def add_options(findings: argparse.ArgumentParser) -> None:
    """Add the format, and where the boards are."""
    findings.add_argument(
        "--format",
        choices=("csv", "md", "tex"),
        help="default: a list for a terminal; csv also has the findings of which nothing was run",
    )
    add_output(findings)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the findings; the problems say of how many findings nothing was run."""
    catalog = load_catalog(arguments.include_path)
    claims = load_all_claims(catalog, arguments.include_path)
    rows = read_findings(arguments.output, catalog, claims)
    judged = [row for row in rows if row.is_judged]
    left_out = len(rows) - len(judged)
    problems = [f"not run of any model: {counted(left_out, 'finding')}"] if left_out else []
    code = 0 if any(arguments.output.glob("*.json")) else FAILED
    if arguments.format == "csv":
        return Answer([csv.lines(COLUMNS, lines(rows)).removesuffix("\r\n")], [], code)
    if arguments.format:
        return Answer([_formatted(arguments.format, judged)], problems, code)
    told = ["\n".join(by_model(row)) for row in judged]
    return Answer([*told, NOTE] if judged else [], problems, code)


def _formatted(name: str, rows: list[Row]) -> str:
    """Return the table in one of the formats that boards are exported in."""
    form: Any = import_module(f"vlbench.leaderboard.export.{name}")
    table = [[form.escaped(cell) for cell in row] for row in cells(rows)]
    text: str = form.grid(TITLE, "l" * len(table[0]), table, NOTE)
    return text.removesuffix("\n")
