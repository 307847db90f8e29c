"""Boards as tables: one for each set of comparable rows, best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from vlbench.boards import Board
from vlbench.errors import spaced
from vlbench.leaderboard.comparison.leaders import standing
from vlbench.leaderboard.page.values import (
    NO_SCORE,
    Reason,
    Row,
    Table,
    chance_of,
    figure_of,
    interval_of,
    metric_label,
    row_id,
    task_id,
)
from vlbench.leaderboard.rows import comparable_sets, is_random, ranked, ties_mark
from vlbench.leaderboard.tables import hardest_floor
from vlbench.results import Result, Score, matching

# The steps of a scale: half a percent each.
STEPS = 200


class Scale(NamedTuple):
    """The numbers at the two ends of a table's bars."""

    low: float
    high: float

    def step(self, value: float) -> int:
        """Return the step that is nearest to a number, 0..STEPS."""
        part = (value - self.low) / (self.high - self.low)
        return round(STEPS * min(max(part, 0.0), 1.0))


def scale_of(scores: Sequence[Score]) -> Scale:
    """Return the scale of scores: 0 to 1 where it holds them, else one that holds all and 0."""
    numbers = [0.0]
    for score in scores:
        numbers += [score.value, *(score.ci95 or ()), *score.floors.values()]
        numbers += [] if score.chance is None else [score.chance]
    low, high = min(numbers), max(numbers)
    if scores and scores[0].unit in {"fraction", "correlation"}:
        high = max(high, 1.0)
    return Scale(low, high if high > low else low + 1.0)


def bar(score: Score, scale: Scale) -> str:
    """Return the classes of a score and its interval."""
    ends = zip("lh", score.ci95 or (), strict=False)
    return " ".join([f"b v{scale.step(score.value)}", *(f"{c}{scale.step(x)}" for c, x in ends)])


def marks(score: Score, scale: Scale) -> str:
    """Return the classes of chance, the highest floor, and zero."""
    floor = hardest_floor(score)
    found = [("k", score.chance), ("f", floor[1] if floor else None)]
    classes = [f"{name}{scale.step(x)}" for name, x in found if x is not None]
    return " ".join([*classes, *([f"z{scale.step(0.0)}"] if scale.low < 0.0 else [])])


def floor_text(score: Score) -> str:
    """Return the highest floor and its name; empty where there is none."""
    floor = hardest_floor(score)
    return f"{figure_of(floor[1], score.unit)} {spaced(floor[0])}" if floor else ""


def rules(names: Iterable[str] = "vlhkfz") -> str:
    """Return the CSS of all these classes."""
    steps = [f"{100 * i / STEPS:g}%" for i in range(STEPS + 1)]
    return "".join(f".{c}{i}{{--{c}:{at}}}" for c in names for i, at in enumerate(steps))


# Of the columns with other scores under the primary one's conditions, so many are visible at first.
VISIBLE_SCORES = 4

Published = Callable[[str, Score], Any]

# What stands below a table where it is the same for all rows, and in a column where it is not.
VARYING: Mapping[str, Callable[[Score], str]] = {
    "n": lambda score: f"{score.n:,}",
    "chance": chance_of,
    "highest floor": floor_text,
}


class Entry(NamedTuple):
    """A row with its primary score, or None, and all its scores by metric and conditions."""

    row: Result
    primary: Score | None
    scores: Mapping[Hashable, Score]


class Column(NamedTuple):
    """A column's label, and the text of a row's cell in it."""

    label: str
    cell: Callable[[Entry], str]


def entries_of(rows: Sequence[Result], primary: Mapping[str, Any]) -> list[Entry]:
    """Return rows by their primary score, best first, and those without one at the end."""
    return [
        Entry(row, score, {_key(s): s for s in row.scores}) for row, score in ranked(rows, primary)
    ]


def first_score(board: Board) -> Score | None:
    """Return a primary score of a board, which tells the unit and the direction of all."""
    return next((s for row in board.results for s in matching(row.scores, board.primary)), None)


def primary_label(board: Board) -> str:
    """Return the primary metric of a board with its conditions and unit."""
    first = first_score(board)
    primary, at = board.primary["metric"], board.primary.get("at", {})
    return metric_label(primary, at, first.unit if first else "")


def published_text(found: Any, unit: str) -> str:
    """Return a paper's number, and how many standard errors ours lies above it; empty for None."""
    if found is None:
        return ""
    away = "" if found.in_stderr is None else f" ({found.in_stderr:+.1f} SE)"
    return figure_of(found.value, unit) + away


def columns_of(
    primary: Mapping[str, Any], entries: Sequence[Entry], leaders: Any, published: Published
) -> tuple[list[Column], int]:
    """Return the columns after the primary score, and how many of them are visible at first."""
    scores = [entry.primary for entry in entries if entry.primary]
    columns = [Column("95 % interval", _of_primary(interval_of))]
    if leaders and leaders.p:
        columns.append(Column("leader", lambda entry: standing(entry.row.model, leaders)))
    if any(published(e.row.model, e.primary) for e in entries if e.primary):
        columns.append(
            Column(
                "published",
                lambda e: (
                    published_text(published(e.row.model, e.primary), e.primary.unit)
                    if e.primary
                    else ""
                ),
            )
        )
    for label, text in VARYING.items():
        columns += [Column(label, _of_primary(text))] if vary(scores, text) else []
    same, others = _others(primary, entries)
    shown = len(columns) + min(len(same), VISIBLE_SCORES)
    return [*columns, *same, *others], shown


def vary(scores: Sequence[Score], part: Callable[[Score], Hashable]) -> bool:
    """Return whether scores differ in a part of them."""
    return len({part(score) for score in scores}) > 1


def facts_of(entries: Sequence[Entry], leaders: Any) -> list[str]:
    """Return what holds for all rows of a table, and why some were not compared."""
    scores = [entry.primary for entry in entries if entry.primary]
    shared = [(label, {text(score) for score in scores}) for label, text in VARYING.items()]
    untested: dict[str, list[str]] = {}
    for model, why in (leaders.untested if leaders else {}).items():
        untested.setdefault(why, []).append(model)
    return [
        *(f"{label} {min(texts)}" for label, texts in shared if len(texts) == 1 and min(texts)),
        *(f"not tested: {', '.join(models)}: {why}" for why, models in untested.items()),
    ]


def _others(
    primary: Mapping[str, Any], entries: Sequence[Entry]
) -> tuple[list[Column], list[Column]]:
    """Return columns of the scores under the primary's conditions, and of all further ones."""
    own = (primary["metric"], frozenset(primary.get("at", {}).items()))
    found = {key: score for entry in entries for key, score in entry.scores.items() if key != own}
    same: list[Column] = []
    others: list[Column] = []
    for key, score in found.items():
        is_same = frozenset(score.at.items()) == own[1]
        label = metric_label(score.metric, {} if is_same else score.at, score.unit)
        (same if is_same else others).append(Column(label, _cell(key)))
    return same, others


def _cell(key: Hashable) -> Callable[[Entry], str]:
    def text(entry: Entry) -> str:
        score = entry.scores.get(key)
        return figure_of(score.value, score.unit) if score else ""

    return text


def _of_primary(text: Callable[[Score], str]) -> Callable[[Entry], str]:
    return lambda entry: text(entry.primary) if entry.primary else ""


def _key(score: Score) -> Hashable:
    return score.metric, frozenset(score.at.items())


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
    scale = scale_of(scores)
    shared = marks(scores[0], scale) if scores else ""
    if vary(scores, lambda score: marks(score, scale)):
        return "", lambda score: f"{bar(score, scale)} {marks(score, scale)}"
    return shared, lambda score: bar(score, scale)


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
