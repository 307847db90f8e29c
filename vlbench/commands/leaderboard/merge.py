"""`vlbench leaderboard merge`: join the boards of several folders."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from vlbench.boards.board import Board
from vlbench.boards.merging import merge, new_rows, read_folder, union
from vlbench.commands import Answer
from vlbench.commands.parser import add_output, output_option
from vlbench.errors import counted
from vlbench.report.texts import few


def add_options(merge: argparse.ArgumentParser) -> None:
    """Add the options for the folders."""
    merge.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders with boards")
    add_output(merge, "--into")


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the joined boards, and return the new rows."""
    before = union(read_folder(arguments.output) if arguments.output.is_dir() else []).boards
    written, problems, notes = merge(arguments.folders, arguments.output)
    if problems:
        return Answer(problems=[*problems, f"nothing is changed in {arguments.output}"], code=1)
    build = f"vlbench leaderboard build{output_option(arguments.output)}"
    news = [*_news(written, before)] or [
        f"nothing new; {arguments.output} already has all these rows"
    ]
    return Answer([*news, *([f"next: {build}"] if written else [])], notes)


def _news(written: Mapping[Path, Board], before: Mapping[str, Board]) -> Iterator[str]:
    """Yield a line for each board that was written with new rows."""
    for file, board in written.items():
        new = new_rows(board, before)
        models = few([*dict.fromkeys(row.model for row in new)])
        if new:
            rows = counted(len(new), "new row")
            yield f"{file.stem}: {rows} ({models}), {len(board.results)} in all"
