"""Items of a row as instance-level records of Every Eval Ever: one for each score and item.

The trials of a score become one record, whose output has the answer of each trial, and whose score
is the mean. An item is correct where its credit is the best that the metric can give, in each
trial. The input is an image or a text that stays where it is: its id and digest stand for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from vlbench.errors import DataError
from vlbench.leaderboard.artifacts import read_table
from vlbench.leaderboard.export.bounds import BOUNDS, FRACTION
from vlbench.results import ITEM_COLUMNS, ITEMS, Result, Score


class Scores(NamedTuple):
    """What all records of a row share, and the id and the score of each metric and `at`."""

    head: Mapping[str, str]
    ids: Mapping[tuple[str, str], tuple[str, Score]]


def sample_lines(output: Path, row: Result, scores: Scores) -> list[dict[str, Any]]:
    """Return the records of a row's items, in the order of its table.

    Items of a score that is no mean of them (a corpus score) are left out. Raises DataError where
    the table cannot be read, or does not fit the row.
    """
    trials: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for item in read_table(output, row, ITEMS, ITEM_COLUMNS):
        if item.get("statistics") is None:
            trials.setdefault((item["metric"], item["at"], item["id"]), []).append(item)
    lines = []
    for (metric, at, name), items in trials.items():
        if (metric, at) not in scores.ids:
            raise DataError(f"its items have a score that the row lacks: {metric} at {at}")
        if not all(
            isinstance(item["credit"], float) and isfinite(item["credit"]) for item in items
        ):
            raise DataError(f"the credit of item {name} is no finite number")
        lines.append(_line(scores, items))
    return lines


def _line(scores: Scores, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the record of one item; `items` has its row of each trial."""
    first = items[0]
    result, score = scores.ids[first["metric"], first["at"]]
    raw = f"{first['id']} {first['digest']}"
    reference = [] if first["target"] is None else [first["target"]]
    credit = fmean(item["credit"] for item in items)
    return {
        **scores.head,
        "evaluation_result_id": result,
        "sample_id": first["id"],
        "sample_hash": hashlib.sha256("\n".join([raw, *reference]).encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": raw, "reference": reference},
        "output": {"raw": [i["prediction"] for i in items if i["prediction"] is not None]},
        "answer_attribution": [],
        "evaluation": {"score": credit, "is_correct": credit == _best(score)},
    }


def _best(score: Score) -> float:
    """Return the best credit that an item can have."""
    low, high = BOUNDS.get(score.metric, FRACTION)
    return high if score.higher_is_better else low
