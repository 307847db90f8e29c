"""Boards as tables: one for each set of comparable rows, best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from vlbench.boards.board import Board
from vlbench.catalog.specs import TaskSpec
from vlbench.report import table
from vlbench.report.leaders import Leaders
from vlbench.report.page.values import (
    NO_SCORE,
    Reason,
    Row,
    Table,
    figure_of,
    metric_label,
    row_id,
    task_id,
)
from vlbench.report.rows import is_random, ties_mark
from vlbench.report.texts import hardest_floor
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
    marks = [("k", score.chance), ("f", floor[1] if floor else None)]
    classes = [f"{name}{scale.step(x)}" for name, x in marks if x is not None]
    return " ".join([*classes, *([f"z{scale.step(0.0)}"] if scale.low < 0.0 else [])])


def rules(names: Iterable[str] = "vlhkfz") -> str:
    """Return the CSS of all these classes."""
    steps = [f"{100 * i / STEPS:g}%" for i in range(STEPS + 1)]
    return "".join(f".{c}{i}{{--{c}:{at}}}" for c in names for i, at in enumerate(steps))


# Of the columns with other scores under the primary one's conditions, so many are visible at first.
VISIBLE_SCORES = 4

# What stands below a table where it is the same for all rows, and in a column where it is not.
VARYING = ("n", "chance", "highest floor")


def first_score(board: Board) -> Score | None:
    """Return a primary score of a board, which tells the unit and the direction of all."""
    return next((s for row in board.results for s in matching(row.scores, board.primary)), None)


def primary_label(board: Board) -> str:
    """Return the primary metric of a board with its conditions and unit."""
    first = first_score(board)
    primary, at = board.primary["metric"], board.primary.get("at", {})
    return metric_label(primary, at, first.unit if first else "")


def facts_of(texts: Mapping[str, set[str]], leaders: Leaders | None) -> list[str]:
    """Return what holds for all rows of a table, and why some were not compared.

    `texts` has the cells of each column.
    """
    untested: dict[str, list[str]] = {}
    for model, why in (leaders.untested if leaders else {}).items():
        untested.setdefault(why, []).append(model)
    return [
        *(f"{head} {min(told)}" for head, told in texts.items() if len(told) == 1 and min(told)),
        *(f"not tested: {', '.join(models)}: {why}" for why, models in untested.items()),
    ]


class Shelf(NamedTuple):
    """A board under the name of its file, with the leaders of its sets by `comparable`."""

    name: str
    board: Board
    leaders: Mapping[str, Leaders]
    is_summary: bool


def tables_of(shelf: Shelf, spec: TaskSpec | None) -> list[Table]:
    """Return a table for each set of comparable rows of a board."""
    ids = row_ids(shelf.board, shelf.name)
    start = task_id(shelf.name, summary=shelf.is_summary)
    tables = table.tables_of(shelf.board, shelf.leaders, spec)
    return [_table(one, f"{start}-table-{i}", ids) for i, one in enumerate(tables, 1)]


def _table(given: table.Table, id_: str, ids: Mapping[tuple[str, str], str]) -> Table:
    beside = [table.cells(entry, figure_of) for entry in given.entries]
    scored = [own for own, entry in zip(beside, given.entries, strict=True) if entry.primary]
    texts = {head: {own[head] for own in scored} for head in VARYING}
    heads = [head for head in given.heads if head not in VARYING or len(texts[head]) > 1]
    at, others = dict(given.primary.get("at", {})), table.other_scores(given)
    labels = [
        metric_label(one.metric, {} if dict(one.at) == at else one.at, one.unit) for one in others
    ]
    same = sum(dict(one.at) == at for one in others)
    marks, bar = _drawing(given.scores)
    rows = []
    for entry, own in zip(given.entries, beside, strict=True):
        scores = {table.key_of(score): score for score in entry.row.scores}
        cells = (scores.get(table.key_of(one)) for one in others)
        told = (figure_of(score.value, score.unit) if score else "" for score in cells)
        rows.append(_row(entry, ids, [*(own[head] for head in heads), *told], bar))
    place, count = given.place
    return Table(
        id=id_,
        caption=f"Set {place} of {count}: not comparable with the others" if count > 1 else "",
        marks=marks,
        facts=facts_of(texts, given.leaders),
        columns=[*heads, *labels],
        shown=len(heads) + min(same, VISIBLE_SCORES),
        rows=rows,
        has_notes=any(row.notes for row in rows),
    )


def reasons_of(board: Board) -> list[Reason]:
    """Return why rows have no scores, the failed ones first, each with its models."""
    models: dict[tuple[str, str], list[str]] = {}
    for row in board.results:
        if row.status != "ok":
            models.setdefault((row.status, row.reason), []).append(row.model)
    return [Reason(status, why, names) for (status, why), names in sorted(models.items())]


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
    if len({marks(score, scale) for score in scores}) > 1:
        return "", lambda score: f"{bar(score, scale)} {marks(score, scale)}"
    return shared, lambda score: bar(score, scale)


def _row(
    entry: table.Entry,
    ids: Mapping[tuple[str, str], str],
    cells: Sequence[str],
    bar: Callable[[Score], str],
) -> Row:
    row, score = entry.row, entry.primary
    return Row(
        id=ids[row.model, row.comparable],
        model=row.model,
        badges=_badges(row),
        bar=bar(score) if score else "",
        score=figure_of(score.value, score.unit) + ties_mark(row) if score else NO_SCORE,
        cells=cells,
        notes=_notes(row),
    )


def _badges(row: Result) -> list[str]:
    n, expected = row.counts.get("n", 0), row.counts.get("expected", 0)
    notes = [f"partial: {n:,} of {expected:,}"] if row.is_partial else []
    return [*notes, *(["random weights"] if is_random(row) else [])]


def _notes(row: Result) -> list[str]:
    """Return a row's notes, and its counts but for those that n says already."""
    said = {row.counts.get("n"), row.counts.get("expected"), 0}
    return [
        *row.notes,
        *(f"{key.replace('_', ' ')}: {n:,}" for key, n in row.counts.items() if n not in said),
    ]
