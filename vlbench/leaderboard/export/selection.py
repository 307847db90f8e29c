"""Which rows of boards are exported, in sets of comparable rows, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.boards import Board
from vlbench.catalog.catalog import Catalog
from vlbench.leaderboard.comparison.leaders import read_leaders
from vlbench.leaderboard.comparison.standing import standing
from vlbench.leaderboard.references import Published, published
from vlbench.leaderboard.rows import comparable_sets, ranked, unpublished
from vlbench.leaderboard.texts import one_line
from vlbench.results import Result, Score, matching


class LeftOut(NamedTuple):
    """A row that is not exported, and why."""

    row: Result
    why: str


class Entry(NamedTuple):
    """One row that is exported.

    `primary` is the score that stands for the task, None where the row lacks it; `published` has
    what a paper gives for each score, or None; `standing` is that against the leader, or empty.
    """

    row: Result
    primary: Score | None
    published: Sequence[Published | None]
    standing: str

    @property
    def reference(self) -> Published | None:
        """What a paper gives for the primary score."""
        pairs = zip(self.row.scores, self.published, strict=True)
        return next((given for score, given in pairs if score is self.primary), None)


class Part(NamedTuple):
    """Rows of one board that may be compared with each other, best first; `title` names the set."""

    board: Board
    title: str
    entries: Sequence[Entry]


class Selection(NamedTuple):
    """The names of the boards, the sets of rows that are exported, and the rows that are not."""

    tasks: Sequence[str]
    parts: Sequence[Part]
    left_out: Sequence[LeftOut]


def select(output: Path, boards: Sequence[Board], catalog: Catalog) -> Selection:
    """Return the publishable rows of boards as sets of comparable rows, and the other rows."""
    rows = [row for board in boards for row in board.results]
    reasons = [LeftOut(row, unpublished(row)) for row in rows]
    parts = [part for board in boards for part in _parts(output, board, catalog)]
    names = [board.task for board in boards]
    return Selection(names, parts, [one for one in reasons if one.why])


def listed(left_out: Sequence[LeftOut]) -> list[str]:
    """Return a line for each task and reason, with the models that are left out for it."""
    models: dict[str, list[str]] = {}
    for row, why in left_out:
        models.setdefault(f"{row.task}: left out ({why})", []).append(row.model)
    return [one_line(f"{line}: {', '.join(names)}") for line, names in models.items()]


def _parts(output: Path, board: Board, catalog: Catalog) -> list[Part]:
    sets = comparable_sets([row for row in board.results if not unpublished(row)])
    title = f"{board.task} (version {board.version})"
    parts, leaders = [], read_leaders(output, board.task)
    for i, (key, rows) in enumerate(sets.items()):
        apart = f", not comparable with the others: set {i + 1}" if len(sets) > 1 else ""
        # Equal ones by name.
        found = ranked(sorted(rows, key=lambda row: row.model), board.primary)
        known = leaders.get(key)
        entries = [_entry(row, catalog, standing(row.model, known)) for row, _ in found]
        parts.append(Part(board, title + apart, entries))
    return parts


def _entry(row: Result, catalog: Catalog, standing: str) -> Entry:
    spec = catalog.tasks.get(row.task)
    found = matching(row.scores, row.primary)
    given = [published(spec, row.model, score) if spec else None for score in row.scores]
    return Entry(row, found[0] if found else None, given, standing)
