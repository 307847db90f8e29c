#!/usr/bin/env python3
"""Prints in Markdown what a pull request changes in published boards; writes nothing.

It exits with 1 if a row is changed or lost, and with 2 if a board cannot be read:

    scripts/publish/merged_changes.py PROPOSED PUBLISHED

Names and reasons are untrusted text: all are in code spans, where they make no mentions or links.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.boards.board import Board
from vlbench.boards.merging import (
    Source,
    identity,
    join,
    new_rows,
    read_folder,
    read_folders,
    same_rows,
    union,
)
from vlbench.errors import VlbenchError, counted
from vlbench.report.data_sets import set_names
from vlbench.report.rows import ties_mark
from vlbench.report.texts import condition, number
from vlbench.results import Result, matching

# The longest reason or conflict that is printed.
LONGEST = 400


class Changes(NamedTuple):
    """Lines of Markdown, and whether no published row is changed or lost and all hashes match."""

    lines: Sequence[str]
    are_fine: bool


def changes(folders: Sequence[Path], output: Path) -> Changes:
    """Return the changes if the union of folders replaces the published boards.

    Raises SpecError for a malformed board, and UnknownNameError for a folder without boards.
    """
    proposed = read_folders(folders)
    published = read_folder(output) if output.exists() else []
    new, _, wrong = join(proposed)
    # Published boards may have artifacts that only the proposed boards correct.
    old, both = union(published), union([*proposed, *published])
    problems = sorted({*wrong, *both.conflicts, *_lost(old.boards, new.boards), *_hidden(proposed)})
    listed = {_title(b): [*_told_rows(b, old.boards)] for b in new.boards.values()}
    count = sum(map(len, listed.values()))
    verdict = counted(len(problems), "problem") if problems else "nothing changed or lost"
    lines = [f"**{counted(count, 'new row')}; {verdict}.**"]
    sections = {"Problems": [span(problem) for problem in problems], **listed}
    for title, found in sections.items():
        lines += ["", f"#### {title}", "", *(f"- {one}" for one in found)] if found else []
    return Changes(lines, not problems)


def span(text: str) -> str:
    """Return a text as a Markdown code span on one line, shortened if it is long."""
    line = " ".join(text.split()) or "-"
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    room = " " if "`" in line else ""
    return f"{fence}{room}{line}{room}{fence}"


def _lost(old: Mapping[str, Board], new: Mapping[str, Board]) -> list[str]:
    """Return the published rows that are not on the new boards.

    A row without scores may be replaced by another row of its model.
    """
    lost = []
    for name, board in old.items():
        rows = same_rows(board, new)
        models, scored = {row.model for row in rows}, {identity(row) for row in rows}
        for row in board.results:
            kept = identity(row) in scored if row.status == "ok" else row.model in models
            if not kept:
                lost.append(f"{name}: the row of '{row.model}' is lost; put it back")
    return lost


def _hidden(sources: Sequence[Source]) -> list[str]:
    """Return the boards that no table shows, since their newest version is in the archive."""
    there = {(source.name, source.board.version) for source in sources}
    newest = [(name, one.version) for name, one in union(sources).boards.items() if "/" not in name]
    hidden = [
        f"{name}: version {version}" for name, version in newest if (name, version) not in there
    ]
    return [f"{one} stands in the archive alone; put it back" for one in hidden]


def _told_rows(board: Board, old: Mapping[str, Board]) -> Iterator[str]:
    """Yield a line for each new row of a board, with the name of its set if there are several."""
    names = set_names(board.results)
    for row in new_rows(board, old):
        name = names.get(row.comparable, "")
        yield _told(row, f"{span(row.model)}{f' on {span(name)}' if name else ''}")


def _told(row: Result, what: str) -> str:
    scores = matching(row.scores, row.primary)
    if row.status != "ok" or not scores:
        return f"{what}: {row.status}, {span(row.reason)}"
    score = scores[0]
    at = "".join(f", {name} {condition(value)}" for name, value in score.at.items())
    partial = " (partial)" if row.is_partial else ""
    value = number(score.value, score.unit) + ties_mark(row)
    return f"{what}: {span(score.metric + at)} {value}, n {score.n}{partial}"


def _title(board: Board) -> str:
    return f"{span(board.task)}, version {board.version}"


if __name__ == "__main__":
    try:
        found = changes([Path(sys.argv[1])], Path(sys.argv[2]))
    except VlbenchError as error:
        print(f"vlbench: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join(found.lines))
    sys.exit(0 if found.are_fine else 1)
