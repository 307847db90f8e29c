"""`vlbench papers`: repeat the published numbers of papers, or print the cost."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vlbench.catalog.catalog import Catalog, load_all_findings, load_catalog
from vlbench.catalog.findings import FindingsSpec
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import (
    add_cache,
    add_data,
    add_output,
    add_paper,
    options_of,
    parser_of,
    positive,
)
from vlbench.errors import VlbenchError
from vlbench.report.papers import HEADS, cells, rows_of, total
from vlbench.report.reproduction import find_papers
from vlbench.report.texts import plain_table

if TYPE_CHECKING:  # `vlbench --help` needs no rich
    from rich.table import Table

# Printed below the tables.
NOTE = (
    "GB: archives, and weights as float32; each is fetched once. Hours: taken from rows on the "
    "boards here; - is unknown. Fetch data that need a form or a registration by hand."
)


def add_options(papers: argparse.ArgumentParser) -> None:
    """Add the options for the paper, the data and the boards."""
    add_paper(papers)
    papers.add_argument("--rows", type=positive, metavar="N", help="only the first N rows of each")
    papers.add_argument("--dry-run", action="store_true", help="print what it takes, and stop")
    add_data(papers, download=True)
    add_output(papers, of_run=True)
    add_cache(papers)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the cost of papers' rows, or run the rows and compare them with the papers."""
    catalog = load_catalog(arguments.include_path)
    findings = load_all_findings(catalog, arguments.include_path)
    papers = [paper for paper in find_papers(findings, arguments.paper) if paper.experiments]
    if arguments.dry_run:
        rows = [
            row
            for paper in papers
            for row in rows_of(paper, catalog, arguments.output)[: arguments.rows]
        ]
        whole = f"all papers: {total(rows)}"
        parts = [part for paper in papers for part in _describe(paper, catalog, arguments)]
        return Answer([*([whole] if len(papers) > 1 else []), *parts, NOTE])
    problems = [*dict.fromkeys(why for paper in papers for why in _run(paper, catalog, arguments))]
    names = [arguments.paper] if arguments.paper else []
    words = ["leaderboard", "reproduce", *names, "--output", str(arguments.output)]
    words += [f"--include-path={folder}" for folder in arguments.include_path]
    reproduce = parser_of().parse_args(words)
    report: Answer = reproduce.answer(reproduce)
    return Answer(report.shown, problems, FAILED if problems else report.code)


def _describe(
    paper: FindingsSpec, catalog: Catalog, arguments: argparse.Namespace
) -> Iterator[str | Table]:
    """Yield the title of a paper, its rows with their cost, and what cannot be repeated."""
    rows = rows_of(paper, catalog, arguments.output)[: arguments.rows]
    yield f"{paper.title}, {paper.paper}: {total(rows)}"
    yield paper.question
    yield plain_table(HEADS, [cells(row) for row in rows])
    for data, access, licence in dict.fromkeys((r.data, r.access, r.licence) for r in rows):
        yield f"{data}: {access}; licence: {licence}"
    for gap in paper.without:
        yield f"without {gap.what}: {gap.why}; nearest: {gap.nearest}"
    yield ""


def _run(paper: FindingsSpec, catalog: Catalog, arguments: argparse.Namespace) -> Iterator[str]:
    """Run the rows of a paper, and yield why some failed; rows already on boards are kept."""
    from vlbench.bench import planned_run
    from vlbench.commands.printing import print_plan
    from vlbench.commands.run import run_plan
    from vlbench.system.console import open_console

    options = options_of(arguments)
    for row in rows_of(paper, catalog)[: arguments.rows]:
        label = f"vlbench: {row.task} by {row.model}"
        try:
            with planned_run([row.model], [row.task], options) as (planned, processes):
                print_plan(open_console(), planned)
                end = run_plan(planned, processes)
        except VlbenchError as error:
            yield f"{label}: {error}"
        else:
            yield from end.problems or ([f"{label}: see the reason above"] if end.code else [])
