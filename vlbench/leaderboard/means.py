"""Means of scores over the tasks of a group, as the rows of a summary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

from vlbench.boards import Board
from vlbench.leaderboard.rows import publishable
from vlbench.results import Result, Score, matching, score_row


def mean_rows(boards: Sequence[Board]) -> list[dict[str, Any]]:
    """Return a row for each model that has a publishable row on every board.

    It has a score for each metric and conditions that the model has on every board: the mean, with
    the standard error of arXiv:2104.08313 (population standard deviation / sqrt(tasks)).
    """
    tables = [publishable(board.results) for board in boards]
    shared = set(tables[0]).intersection(*tables[1:])
    return [_mean_row(model, [table[model] for table in tables]) for model in sorted(shared)]


def _mean_row(model: str, results: Sequence[Result]) -> dict[str, Any]:
    keys = [{"metric": score.metric, "at": score.at} for score in results[0].scores]
    found = [[matching(result.scores, key) for result in results] for key in keys]
    joined = json.dumps([result.comparable for result in results])
    return {
        "model": model,
        "status": "ok",
        "comparable": "sha256:" + hashlib.sha256(joined.encode()).hexdigest(),
        "scores": [score_row(_mean([same[0] for same in tasks])) for tasks in found if all(tasks)],
        "counts": {"n": len(results), "expected": len(results)},
    }


def _mean(scores: Sequence[Score]) -> Score:
    """Return the mean of scores of the same metric and conditions, one per task."""
    first, values = scores[0], [score.value for score in scores]
    chances = [score.chance for score in scores if score.chance is not None]
    floors = set(first.floors).intersection(*(score.floors for score in scores))
    return Score(
        metric=first.metric,
        value=fmean(values),
        n=len(values),
        at=first.at,
        stderr=pstdev(values) / len(values) ** 0.5,
        chance=fmean(chances) if len(chances) == len(scores) else None,
        floors={name: fmean(score.floors[name] for score in scores) for name in sorted(floors)},
        draws=values,
        unit=first.unit,
        higher_is_better=first.higher_is_better,
        range=first.range,
    )
