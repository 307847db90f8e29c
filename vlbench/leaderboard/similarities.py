"""Similarity of models: correlations of their matrices. arXiv:2104.08313, section 4.

Each model is compared with each other one, also across the tasks of a group.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata

from vlbench.leaderboard.members import Member
from vlbench.metrics.rank_correlation import kendall_deviations, spearman_deviations
from vlbench.metrics.rdm_correlation import (
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


def similarity_rows(members: Sequence[Member]) -> list[dict[str, Any]]:
    """Return a row for each of two or more models: its correlation with each other, and their mean.

    `rdm_correlation` is Pearson's r, beside it stand `rdm_spearman` and `rdm_kendall` (tau b). All
    intervals are from the same 1,000 bootstrap draws of the classes, those of the rank correlations
    to first order. The floor of r is its 95th percentile under 100 permutations of the classes of
    one matrix, and 100 of the other; the rank correlations have none.
    """
    matrices = np.stack([member.matrix for member in members])
    classes = len(members[0].classes)
    values = correlations(matrices)
    drawn = class_draws(classes, seed=SEED)
    draws, floors = redrawn(matrices, drawn), permuted(matrices, seed=SEED)
    ranked = _ranked(matrices, drawn)
    keys = json.dumps(sorted({member.comparable for member in members}))
    comparable = "sha256:" + hashlib.sha256(keys.encode()).hexdigest()
    rows = []
    for i, member in enumerate(members):
        others = [j for j in range(len(members)) if j != i]
        mean = float(values[i, others].mean())
        scores = [_score("mean_rdm_correlation", mean, classes, draws[i, others].mean(0))]
        for j in others:
            at = {"with": members[j].name}
            floor = {"class_permutations": float(floors[i, j])}
            scores.append(
                _score("rdm_correlation", float(values[i, j]), classes, draws[i, j], at, floor)
            )
            scores += [
                _score(metric, float(value[i, j]), classes, around[i, j], at)
                for metric, (value, around) in ranked.items()
            ]
        rows.append(_row(member.name, scores, classes, comparable))
    return rows


def left_out_rows(left_out: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each model that is not compared, with the reason."""
    return [
        _row(name, [], 0, "") | {"status": "skipped", "reason": reason}
        for name, reason in left_out.items()
    ]


def _ranked(matrices: NDArray[Any], drawn: Floats) -> dict[str, tuple[Floats, Floats]]:
    """Return each rank correlation [K, K], and what it is in each draw, [K, K, draws]."""
    values = {
        "rdm_spearman": (correlations(rankdata(matrices, axis=1)), spearman_deviations),
        "rdm_kendall": (_kendall(matrices), kendall_deviations),
    }
    return {
        metric: (value, np.clip(value[..., None] + deviations(matrices, drawn), -1.0, 1.0))
        for metric, (value, deviations) in values.items()
    }


def _kendall(matrices: NDArray[Any]) -> Floats:
    """Return Kendall's tau b of each pair of matrices, [K, K]; 0 where one is constant."""
    found = np.eye(len(matrices))
    varied = [bool(z.any()) for z in standardised(matrices)]
    for i, j in combinations(range(len(matrices)), 2):
        if varied[i] and varied[j]:
            found[i, j] = found[j, i] = kendalltau(matrices[i], matrices[j]).statistic
    return found


def _score(
    metric: str,
    value: float,
    classes: int,
    draws: Floats,
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
        **interval(draws)._asdict(),
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
