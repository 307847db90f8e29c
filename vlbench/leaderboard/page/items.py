"""The examples of a task that models get wrong most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from vlbench.boards import Board
from vlbench.errors import DataError
from vlbench.leaderboard.artifacts import read_items
from vlbench.leaderboard.page.values import WrongItem
from vlbench.leaderboard.rows import publishable
from vlbench.metrics.items import at_text
from vlbench.results import ITEMS, Result, matching

MOST = 10


def wrong_items(output: Path, board: Board) -> tuple[list[WrongItem], list[str]]:
    """Return the examples that are worst by mean credit over a board's models, and problems.

    Each model counts once, with its mean over trials, and only items of the primary score count
    that all these models have. Models are those whose rows are publishable and that the first of
    them may be compared with. A problem names a model and why its items cannot be read.
    """
    rows = [row for row in publishable(board.results).values() if ITEMS in row.artifacts]
    tables, problems = [], []
    for row in rows:
        if row.comparable != rows[0].comparable:
            continue
        try:
            tables.append(_primary(read_items(output, row), board))
        except DataError as error:
            problems.append(f"{row.model}: {error}")
    filled = [table for table in tables if len(table)]
    return (_worst(filled, lower=_lower_is_better(rows, board)) if filled else []), problems


def _lower_is_better(rows: Sequence[Result], board: Board) -> bool:
    """Return whether full credit is 0, as for the success of an attack."""
    scores = [score for row in rows for score in matching(row.scores, board.primary)]
    return any(not score.higher_is_better for score in scores)


def _primary(items: pa.Table, board: Board) -> pa.Table:
    """Return id, credit, prediction and target of a model's items of the primary score."""
    metric = pc.equal(items["metric"], board.primary["metric"])
    at = pc.equal(items["at"], at_text(board.primary.get("at", {})))
    own = items.select(["id", "credit", "prediction", "target"]).filter(pc.and_(metric, at))
    kinds = [(c, pa.float64() if c == "credit" else pa.string()) for c in own.column_names]
    return own.cast(pa.schema(kinds))


def _worst(tables: Sequence[pa.Table], *, lower: bool) -> list[WrongItem]:
    """Return the items with the lowest mean credit, or the highest; by id where they are equal."""
    means = pa.concat_tables(
        table.group_by("id").aggregate([("credit", "mean")]) for table in tables
    )
    over = means.group_by("id").aggregate([("credit_mean", "mean"), ("credit_mean", "count")])
    shared = over.filter(pc.equal(over["credit_mean_count"], len(tables)))
    order = [("credit_mean_mean", "descending" if lower else "ascending"), ("id", "ascending")]
    worst = shared.sort_by(order).slice(0, MOST).to_pylist()
    ids = pa.array([item["id"] for item in worst], pa.string())
    said = pa.concat_tables(t.filter(pc.is_in(t["id"], ids)) for t in tables).to_pylist()
    return [
        WrongItem(
            id=item["id"],
            credit=f"{100.0 * item['credit_mean_mean']:.0f}",
            models=len(tables),
            target=next((s["target"] for s in said if s["id"] == item["id"] and s["target"]), ""),
            predictions=_counted([s["prediction"] for s in said if s["id"] == item["id"]]),
        )
        for item in worst
        if (item["credit_mean_mean"] > 0.0 if lower else item["credit_mean_mean"] < 1.0)
    ]


def _counted(predictions: Sequence[str | None]) -> str:
    """Return the three most frequent predictions, the most frequent first."""
    counted = Counter(text for text in predictions if text is not None)
    most = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    return ", ".join(f"{text} ({count})" for text, count in most)
