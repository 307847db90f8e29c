"""The columns of a table beside the model and the primary score, and what holds for all rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from vlbench.boards import Board
from vlbench.leaderboard.comparison.standing import standing
from vlbench.leaderboard.page import bars
from vlbench.leaderboard.page.names import chance_of, figure_of, interval_of, metric_label
from vlbench.leaderboard.rows import ranked
from vlbench.results import Result, Score, matching

# Of the columns with other scores under the primary one's conditions, so many are visible at first.
VISIBLE_SCORES = 4

Published = Callable[[str, Score], Any]

# What stands below a table where it is the same for all rows, and in a column where it is not.
VARYING: Mapping[str, Callable[[Score], str]] = {
    "n": lambda score: f"{score.n:,}",
    "chance": chance_of,
    "highest floor": bars.floor_text,
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
