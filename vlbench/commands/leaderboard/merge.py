"""`vlbench leaderboard merge`: the boards of several folders joined in one."""

from __future__ import annotations

import argparse

from vlbench.commands.answer import Answer
from vlbench.errors import counted
from vlbench.leaderboard.merging.changes import changes
from vlbench.leaderboard.merging.merging import merge


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the joined boards, or say in Markdown what they would change."""
    if arguments.check:
        found = changes(arguments.folders, arguments.output)
        return Answer(found.lines, code=0 if found.are_fine else 1)
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
