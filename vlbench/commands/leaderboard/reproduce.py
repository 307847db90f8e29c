"""`vlbench leaderboard reproduce`: put a paper's numbers and findings beside what boards hold."""

from __future__ import annotations

import argparse

from rich.table import Table

from vlbench.catalog.catalog import load_all_claims, load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import add_output
from vlbench.leaderboard.claims import Evidence, Judgement, Lack, judge, read_boards
from vlbench.leaderboard.ranging import judge_range
from vlbench.leaderboard.reproduction import (
    claims_table,
    find_paper,
    reference_tables,
    references_of,
    summary,
    tasks_of_paper,
    to_fetch,
)


def add_options(reproduce: argparse.ArgumentParser) -> None:
    """Add the paper."""
    reproduce.add_argument(
        "paper", metavar="PAPER", help="the name of a file in tasks/**/claims/, or a paper's id"
    )
    add_output(reproduce)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return published values, claims with their verdicts, and what to fetch for the rest."""
    catalog = load_catalog(arguments.include_path)
    paper = find_paper(load_all_claims(catalog, arguments.include_path), arguments.paper)
    specs = tasks_of_paper(paper, catalog)
    boards = read_boards(arguments.output, specs)
    references = references_of(paper, specs, boards)
    evidence = Evidence(boards, catalog, arguments.output)
    judgements = [
        (judge_range if claim.range else judge)(claim, evidence) for claim in paper.claims
    ]
    lacks = [one.ours for one in references if isinstance(one.ours, Lack)]
    # Of the models that a claim ranges over, nobody need run all.
    lacks += [lack for one in judgements if isinstance(one, Judgement) for lack in one.lacks]
    shown: list[str | Table] = [*summary(paper, references, judgements)]
    shown += [*reference_tables(references), claims_table(judgements)]
    return Answer([*shown, *to_fetch(lacks, catalog, arguments.output)])
