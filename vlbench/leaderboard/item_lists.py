"""Items of one score: each example with its credit, and what was said most often over trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from vlbench.errors import UnknownNameError
from vlbench.metrics.items import at_text


class Item(NamedTuple):
    """An example: its mean credit over trials, and the most frequent prediction, "" for none.

    `said` is how many of the `trials` said so; a choice among tied candidates says nothing.
    """

    id: str
    digest: str
    credit: float
    prediction: str
    target: str
    said: int
    trials: int


def items_of(table: pa.Table, metric: str, at: Mapping[str, Any]) -> list[Item]:
    """Return the items of one score, in the order in which they were tested.

    Raises UnknownNameError, with the scores that have items, where it has none.
    """
    wanted = pc.and_(pc.equal(table["metric"], metric), pc.equal(table["at"], at_text(at)))
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.filter(wanted).to_pylist():
        rows.setdefault(row["id"], []).append(row)
    if not rows:
        there = table.select(["metric", "at"]).group_by(["metric", "at"]).aggregate([])
        known = sorted(f"{row['metric']} at {row['at']}" for row in there.to_pylist())
        raise UnknownNameError(f"no items of {metric} at {at_text(at)}; there are {known}")
    return [_item(same) for same in rows.values()]


def worst(items: Sequence[Item], *, higher_is_better: bool = True) -> list[Item]:
    """Return the items without full credit, the worst first.

    Where lower is better, as for the success of an attack, full credit is 0.
    """
    costs = {item.id: 1 - item.credit if higher_is_better else item.credit for item in items}
    return sorted((item for item in items if costs[item.id] > 0), key=lambda item: -costs[item.id])


def _item(same: Sequence[Mapping[str, Any]]) -> Item:
    said = Counter(row["prediction"] for row in same if row["prediction"] is not None)
    prediction, times = said.most_common(1)[0] if said else ("", 0)
    first, credit = same[0], fmean(row["credit"] for row in same)
    return Item(
        id=first["id"],
        digest=first["digest"],
        credit=credit,
        prediction=prediction,
        target=first["target"] or "",
        said=times,
        trials=len(same),
    )
