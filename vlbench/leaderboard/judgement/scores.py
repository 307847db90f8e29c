"""Mean ratings per system with intervals, and the agreement of the raters.

Agreement is Krippendorff's alpha for ordinal ratings (Krippendorff 2011, Computing Krippendorff's
Alpha-Reliability).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.leaderboard.judgement.material import HUMAN
from vlbench.leaderboard.judgement.reading import Judgements
from vlbench.leaderboard.judgement.sheets import ANSWERS
from vlbench.metrics.statistics import Estimate, bootstrap_ratio


class Rating(NamedTuple):
    """The mean rating of a system's questions on a sheet, and its difference from human ones.

    Intervals come from a bootstrap over images with raters held fixed; the difference is paired by
    image, and None for the human questions themselves.
    """

    sheet: str
    system: str
    mean: Estimate
    difference_from_human: Estimate | None


def ratings_of(judgements: Judgements) -> list[Rating]:
    """Return the mean rating of each system on each sheet."""
    systems = list(judgements.key.systems)
    found = []
    for sheet, answers in judgements.answers.items():
        raters, images, _ = answers.shape
        sums, each = answers.sum(0).astype(np.float64), np.full(images, float(raters))
        human = sums[:, systems.index(HUMAN)]
        for system, own in zip(systems, sums.T, strict=True):
            less = None if system == HUMAN else bootstrap_ratio(own - human, each)
            found.append(Rating(sheet, system, bootstrap_ratio(own, each), less))
    return found


def agreement(answers: NDArray[np.int64]) -> float | None:
    """Return the ordinal alpha of answers [raters, ...]: 1 is full agreement, 0 is chance.

    None where all answers are equal: alpha is undefined without variation.
    """
    units = answers.reshape(len(answers), -1).T
    scale = np.array([int(answer) for answer in ANSWERS])
    return ordinal_alpha((units[:, :, None] == scale).sum(1))


def ordinal_alpha(counts: NDArray[np.int64]) -> float | None:
    """Return Krippendorff's alpha, given how many raters gave each unit each value, in their order.

    `counts` is [units, values]; units with fewer than two ratings are left out. Alpha is
    1 - (n - 1) sum(o_ck d_ck) / sum(n_c n_k d_ck): o_ck counts the pairs of ratings of a unit,
    over its ratings less one, n_c is the sum of row c, n that of all, and d_ck the square of
    n_c / 2 + n_k / 2 + all between. None where all ratings are equal.
    """
    counts = counts[counts.sum(1) > 1]
    weighted = counts / (counts.sum(1, keepdims=True) - 1)
    coincidences = weighted.T @ counts - np.diag(weighted.sum(0))
    totals = coincidences.sum(0)
    ranks = totals.cumsum() - totals / 2
    distances = (ranks[:, None] - ranks) ** 2
    expected = totals @ distances @ totals
    if expected == 0:
        return None
    return float(1 - (totals.sum() - 1) * (coincidences * distances).sum() / expected)


def as_json(judgements: Judgements) -> Mapping[str, Any]:
    """Return all ratings' statistics as plain values for JSON."""
    raters, images, _ = next(iter(judgements.answers.values())).shape
    key = judgements.key
    return {
        "task": key.task,
        "model": key.model,
        "questions": key.questions,
        "raters": raters,
        "images": images,
        "agreement": {name: agreement(found) for name, found in judgements.answers.items()},
        "means": [
            {
                "sheet": one.sheet,
                "system": one.system,
                **_plain(one.mean),
                "difference_from_human": one.difference_from_human
                and _plain(one.difference_from_human),
            }
            for one in ratings_of(judgements)
        ],
    }


def _plain(found: Estimate) -> dict[str, Any]:
    return {"value": found.value, "stderr": found.stderr, "ci95": list(found.ci95)}
