"""`vlbench leaderboard merge`: join the boards of several folders."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlbench.boards.merging import merge
from vlbench.commands import Answer
from vlbench.commands.parser import add_output
from vlbench.errors import counted
from vlbench.report.merged_changes import changes


def add_options(merge: argparse.ArgumentParser) -> None:
    """Add the folders, and whether they are only checked."""
    merge.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders with boards")
    add_output(merge)
    merge.add_argument(
        "--check",
        action="store_true",
        help="write nothing; say in Markdown what is new in the DIRs, as a pull request would put "
        "them in the place of --output, and exit 1 if a row were changed or lost",
    )


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the joined boards, or say in Markdown what they would change."""
    if arguments.check:
        report = changes(arguments.folders, arguments.output)
        return Answer(report.lines, code=0 if report.are_fine else 1)
    written, problems = merge(arguments.folders, arguments.output)
    if problems:
        return Answer(problems=[*problems, f"nothing is changed in {arguments.output}"], code=1)
    build = f"`vlbench leaderboard build --output {arguments.output}`"
    rows = {file: len(board.results) for file, board in written.items()}
    return Answer(
        [
            *(f"wrote {file}: {counted(count, 'row')}" for file, count in rows.items()),
            f"summaries, figures and comparisons are not merged; {build} makes them"
            if written
            else f"nothing new; {arguments.output} has all of these rows",
        ]
    )
