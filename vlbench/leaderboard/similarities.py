"""Similarity of models: correlations of their matrices. arXiv:2104.08313, section 4.

Each model is compared with each other one, also across the tasks of a group.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from vlbench.leaderboard.members import Member
from vlbench.metrics.rdm_correlation import (
    Interval,
    class_draws,
    correlations,
    interval,
    permuted,
    redrawn,
    standardised,
)
from vlbench.results import Score, score_row

Floats = NDArray[np.float64]

PRIMARY = {"metric": "mean_rdm_correlation", "at": {}}

# Each build draws and permutes the classes in the same way.
SEED = 0


class Similarities(NamedTuple):
    """The correlations of K matrices, Pearson's and Spearman's, [K, K].

    Of Pearson's, the intervals of each row and of its mean over the other matrices, and the floors.
    """

    pearson: Floats
    spearman: Floats
    intervals: Sequence[Interval]
    of_means: Sequence[Interval]
    floors: Floats


def similarities(members: Sequence[Member]) -> Similarities:
    """Return the correlations of the matrices of two or more models.

    Intervals are from the same 1,000 bootstrap draws of the classes. A floor is the 95th percentile
    under 100 permutations of the classes of one matrix, and 100 of the other. The rank correlation
    has neither, as in arXiv:2104.08313; Kendall's takes .1 s a pair, hours for hundreds of models.
    """
    count = len(members)
    table = standardised((member.read_matrix() for member in members), count, np.float32)
    intervals: list[Interval] = []
    of_means: list[Interval] = []
    for found in redrawn(table, class_draws(len(members[0].classes), seed=SEED)):
        for row in found.transpose(1, 0, 2):
            own = row[:, len(intervals)]
            of_means.append(interval((row.sum(1) - own) / (count - 1)))
            intervals.append(interval(row))
    pearson, floors = correlations(table), permuted(table, seed=SEED)
    del table  # of 500 matrices of 1,000 classes, 1 GB
    ranks = (rankdata(member.read_matrix()) for member in members)
    spearman = correlations(standardised(ranks, count, np.float32))
    return Similarities(pearson, spearman, intervals, of_means, floors)


def similarity_rows(members: Sequence[Member], found: Similarities) -> Iterator[dict[str, Any]]:
    """Yield a row for each model: its correlation with each other, and their mean."""
    classes, places = len(members[0].classes), range(len(members))
    keys = json.dumps(sorted({member.comparable for member in members}))
    comparable = "sha256:" + hashlib.sha256(keys.encode()).hexdigest()
    for i, member in enumerate(members):
        others = [j for j in places if j != i]
        mean = float(found.pearson[i, others].mean())
        scores = [_score("mean_rdm_correlation", mean, classes, found.of_means[i])]
        errors, (lows, highs) = found.intervals[i]
        for j in others:
            at = {"with": members[j].name}
            floor = {"class_permutations": float(found.floors[i, j])}
            around = Interval(errors[j], (lows[j], highs[j]))
            value, rank = float(found.pearson[i, j]), float(found.spearman[i, j])
            scores.append(_score("rdm_correlation", value, classes, around, at, floor))
            scores.append(_score("rdm_spearman", rank, classes, None, at))
        yield _row(member.name, scores, classes, comparable)


def left_out_rows(left_out: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each model that is not compared, with the reason."""
    return [
        _row(name, [], 0, "") | {"status": "skipped", "reason": reason}
        for name, reason in left_out.items()
    ]


def _score(
    metric: str,
    value: float,
    classes: int,
    around: Interval | None,
    at: Mapping[str, str] | None = None,
    floors: Mapping[str, float] | None = None,
) -> Score:
    return Score(
        metric,
        value,
        classes,
        at or {},
        chance=0.0,
        floors=floors or {},
        unit="correlation",
        **(around._asdict() if around else {}),
    )


def _row(name: str, scores: Sequence[Score], classes: int, comparable: str) -> dict[str, Any]:
    return {
        "model": name,
        "status": "ok",
        "reason": "",
        "comparable": comparable,
        "scores": [score_row(score) for score in scores],
        "counts": {"n": classes, "expected": classes},
    }
