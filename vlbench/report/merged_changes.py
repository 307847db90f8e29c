"""What a pull request changes in published boards, in Markdown.

Names and reasons come from strangers: all are in code spans, where they mention and link nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.boards.board import Board
from vlbench.boards.merging import Source, join, read_folder, read_folders, union
from vlbench.errors import counted
from vlbench.report.data_sets import set_names
from vlbench.report.rows import ties_mark
from vlbench.report.texts import condition, number
from vlbench.results import Result, matching

# The longest reason or conflict that is shown.
LONGEST = 400


class Changes(NamedTuple):
    """Lines of Markdown, and whether nothing published is changed or lost and all hashes fit."""

    lines: Sequence[str]
    are_fine: bool


def changes(folders: Sequence[Path], output: Path) -> Changes:
    """Return what changes when the union of folders takes the place of the published boards.

    Raises SpecError for a malformed board, and UnknownNameError for a folder without any.
    """
    proposed = read_folders(folders)
    published = read_folder(output) if output.exists() else []
    new, _, wrong = join(proposed)
    # What is published may hold artifacts that only the proposed boards put right.
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
    """Return a text as a Markdown code span on one line, cut where it is long."""
    line = " ".join(text.split()) or "-"
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    room = " " if "`" in line else ""
    return f"{fence}{room}{line}{room}{fence}"


def _lost(old: Mapping[str, Board], new: Mapping[str, Board]) -> list[str]:
    """Return the published rows that the new boards lack.

    A row without scores may make room for another of its model.
    """
    lost = []
    for name, board in old.items():
        rows = _same(board, new)
        models, scored = {row.model for row in rows}, {_identity(row) for row in rows}
        for row in board.results:
            kept = _identity(row) in scored if row.status == "ok" else row.model in models
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


def new_rows(board: Board, old: Mapping[str, Board]) -> list[Result]:
    """Return the rows of a board that are not among the old ones of its task and version."""
    rows = _same(board, old)
    models, known = {row.model for row in rows}, {_identity(row) for row in rows}
    return [
        row
        for row in board.results
        if _identity(row) not in known and (row.status == "ok" or row.model not in models)
    ]


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


def _same(board: Board, boards: Mapping[str, Board]) -> Sequence[Result]:
    """Return the rows of a board's task and version among other boards."""
    same = [b for b in boards.values() if (b.task, b.version) == (board.task, board.version)]
    return [row for one in same for row in one.results]


def _identity(row: Result) -> tuple[str, str, bool]:
    return row.model, row.comparable, row.status == "ok"


def _title(board: Board) -> str:
    return f"{span(board.task)}, version {board.version}"
