"""Boards as tables: one for each set of comparable rows, best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vlbench.boards import Board
from vlbench.leaderboard.page import bars
from vlbench.leaderboard.page.columns import (
    Column,
    Entry,
    Published,
    columns_of,
    entries_of,
    facts_of,
    vary,
)
from vlbench.leaderboard.page.names import NO_SCORE, figure_of, row_id, task_id
from vlbench.leaderboard.page.values import Reason, Row, Table
from vlbench.leaderboard.rows import comparable_sets, is_random, ties_mark
from vlbench.results import Result, Score


class Shelf(NamedTuple):
    """A board under the name of its file, with the leaders of its sets by `comparable`."""

    name: str
    board: Board
    leaders: Mapping[str, Any]
    is_summary: bool


def tables_of(shelf: Shelf, cards: Mapping[str, str], published: Published) -> list[Table]:
    """Return a table for each set of comparable rows of a board.

    `cards` holds the id of each model's popover.
    """
    board = shelf.board
    sets = comparable_sets(board.results)
    ids = row_ids(board, shelf.name)
    tables = []
    for i, (key, rows) in enumerate(sets.items()):
        entries = entries_of(rows, board.primary)
        leaders = shelf.leaders.get(key)
        columns, shown = columns_of(board.primary, entries, leaders, published)
        marks, bar = _drawing([entry.primary for entry in entries if entry.primary])
        tables.append(
            Table(
                id=f"{task_id(shelf.name, summary=shelf.is_summary)}-table-{i + 1}",
                caption=f"Set {i + 1} of {len(sets)}: not comparable with the others"
                if len(sets) > 1
                else "",
                marks=marks,
                facts=facts_of(entries, leaders),
                columns=[column.label for column in columns],
                shown=shown,
                rows=[_row(entry, ids, columns, cards, bar) for entry in entries],
                has_notes=any(_notes(row) for row in rows),
            )
        )
    return tables


def reasons_of(board: Board) -> list[Reason]:
    """Return why rows have no scores, the failed ones first, each with its models."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in board.results:
        if row.status != "ok":
            found.setdefault((row.status, row.reason), []).append(row.model)
    return [Reason(status, why, names) for (status, why), names in sorted(found.items())]


def row_ids(board: Board, name: str) -> dict[tuple[str, str], str]:
    """Return the id of each ok row, by model and comparable."""
    ok = [row for row in board.results if row.status == "ok"]
    often = Counter(row.model for row in ok)
    return {
        (row.model, row.comparable): row_id(
            name, row.model, row.comparable if often[row.model] > 1 else ""
        )
        for row in ok
    }


def _drawing(scores: Sequence[Score]) -> tuple[str, Callable[[Score], str]]:
    """Return the marks that all rows of a table share, and what draws a row's own."""
    scale = bars.scale_of(scores)
    shared = bars.marks(scores[0], scale) if scores else ""
    if vary(scores, lambda score: bars.marks(score, scale)):
        return "", lambda score: f"{bars.bar(score, scale)} {bars.marks(score, scale)}"
    return shared, lambda score: bars.bar(score, scale)


def _row(
    entry: Entry,
    ids: Mapping[tuple[str, str], str],
    columns: Sequence[Column],
    cards: Mapping[str, str],
    bar: Callable[[Score], str],
) -> Row:
    row, score = entry.row, entry.primary
    return Row(
        id=ids[row.model, row.comparable],
        model=row.model,
        card=cards[row.model],
        badges=_badges(row),
        bar=bar(score) if score else "",
        score=figure_of(score.value, score.unit) + ties_mark(row) if score else NO_SCORE,
        cells=[column.cell(entry) for column in columns],
        notes=_notes(row),
    )


def _badges(row: Result) -> list[str]:
    n, expected = row.counts.get("n", 0), row.counts.get("expected", 0)
    found = [f"partial: {n:,} of {expected:,}"] if row.is_partial else []
    return [*found, *(["random weights"] if is_random(row) else [])]


def _notes(row: Result) -> list[str]:
    """Return a row's notes, and its counts but for those that n says already."""
    said = {row.counts.get("n"), row.counts.get("expected"), 0}
    return [
        *row.notes,
        *(f"{key.replace('_', ' ')}: {n:,}" for key, n in row.counts.items() if n not in said),
    ]
