"""Gains: the difference of an item's credit under two conditions, paired by item; rank tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vlbench.errors import TooFewRows
from vlbench.metrics.intervals import (
    ROUNDING,
    Estimate,
    Floats,
    estimate_of_sums,
    plain_ends,
    ratio,
    student_quantile,
    unvaried,
    variance_of_mean,
)
from vlbench.metrics.items import Examples, Items, Measured, trials
from vlbench.results import Score

# Floors of a prompted model: with the image of another cluster, and with the text only.
ANOTHER, ALONE = "another_image", "text_alone"
NAMES = {ALONE: "gain_over_text_alone", ANOTHER: "gain_from_image"}


def gains(items: Items) -> list[Measured]:
    """Return a model's gains over its credit with the text only and with another image.

    Example:
        >>> import torch
        >>> from vlbench.metrics.items import Options
        >>> from vlbench.metrics.ranking import without_answer
        >>> own, alone = (without_answer(torch.tensor(one)) for one in ([1.0, 1.0], [1.0, 0.0]))
        >>> examples, options = Examples(["a", "b"], ["1", "2"]), Options((), (), 0.5)
        >>> items = Items("accuracy", own, examples, options, {"text_alone": alone})
        >>> [(gained.score.metric, gained.score.value) for gained in gains(items)]
        [('accuracy_gain_over_text_alone', 0.5)]
    """
    return [
        gain(f"{items.metric}_{name}", items.choice.credit, floor.credit, items.examples)
        for name, floor in ((name, items.floors.get(known)) for known, name in NAMES.items())
        if floor is not None and not isinstance(floor, int | float)
    ]


def gain(
    metric: str,
    credit: ArrayLike,
    other: ArrayLike,
    examples: Examples,
    at: Mapping[str, Any] | None = None,
) -> Measured:
    """Return the mean difference of two credits in [0, 1] of the same examples.

    Credit is [N], or [T, N] of T seeds. The interval is a paired interval over clusters and, if
    there are several, seeds; if nothing varies, it is `unvaried` over the clusters. Raises
    TooFewRows for fewer than two clusters.

    Example:
        >>> examples = Examples(["a", "b", "c", "d"], ["1", "2", "3", "4"])
        >>> score = gain("accuracy_gain", [1, 1, 1, 0], [0, 1, 0, 0], examples).score
        >>> score.value, round(score.stderr, 4)  # of 1, 0, 1 and 0: sqrt((1 / 3) / 4)
        (0.5, 0.2887)
    """
    differences = np.atleast_2d(np.asarray(credit, np.float64) - np.asarray(other, np.float64))
    _, places = np.unique(examples.clusters or examples.ids, return_inverse=True)
    of_images = np.bincount(places, differences.mean(0))
    sums = np.stack([of_images, np.bincount(places).astype(np.float64)], 1)
    draws = differences.mean(1).tolist() if len(differences) > 1 else []
    estimate = _with_width(estimate_of_sums(sums, ratio, by_seed=draws), len(sums))
    score = _score(metric, differences, estimate, at)
    return Measured(replace(score, draws=draws), examples, trials(differences))


def rank_p(value: float, random: ArrayLike) -> float:
    """Return (1 + K) / (T + 1), where K of T random values are at least as large as `value`.

    Example:
        >>> rank_p(0.3, [0.1, 0.3, 0.2])
        0.5
    """
    as_large = np.asarray(random, np.float64) >= value - ROUNDING
    return float(1 + as_large.sum()) / (as_large.size + 1)


def gain_over_draws(
    metric: str,
    credit: ArrayLike,
    others: ArrayLike,
    examples: Examples,
    at: Mapping[str, Any] | None = None,
) -> Measured:
    """Return the mean of credit [N] minus the credit of random draws [T, N] on the same examples.

    The interval is from `beyond_one_more_draw`. Raises TooFewRows for fewer than two clusters or
    draws.

    Example:
        >>> examples = Examples(["a", "b"], ["1", "2"])
        >>> score = gain_over_draws("accuracy_gain", [1, 1], [[1, 0], [0, 0]], examples).score
        >>> score.value, score.draws  # of 0 and 1, and of 1 and 1
        (0.75, [0.5, 1.0])
    """
    differences = np.asarray(credit, np.float64) - np.asarray(others, np.float64)
    _, places = np.unique(examples.clusters or examples.ids, return_inverse=True)
    score = _score(metric, differences, beyond_one_more_draw(differences, places), at)
    return Measured(
        replace(score, draws=differences.mean(1).tolist()), examples, trials(differences)
    )


def beyond_one_more_draw(differences: Floats, clusters: NDArray[np.intp]) -> Estimate:
    """Return the mean of differences [T, N], with an interval for the difference to one more draw.

    `clusters` [N] are numbered from 0. The variance is that of the mean over clusters, plus the
    variance between draws (ddof 1) times 1 + 1 / T: one for the further draw, 1 / T for the mean.
    Student's t has the degrees of freedom of Welch and Satterthwaite; if nothing varies, the
    interval is `unvaried` over the clusters. Raises TooFewRows for fewer than two clusters or
    draws.

    Example:
        >>> estimate = beyond_one_more_draw(np.array([[0.0, 0.5], [0.5, 1.0]]), np.arange(2))
        >>> estimate.value, estimate.stderr  # clusters 0.125 / 2; draws 0.125 * 1.5; sum 1 / 4
        (0.5, 0.5)
        >>> round(estimate.ci95[1], 2)  # 1.6 degrees, 0.0625 / (0.0625^2 + 0.1875^2): t 5.52
        3.26
    """
    (draws, items), count = differences.shape, int(clusters.max()) + 1
    if min(draws, count) < 2:
        raise TooFewRows(f"an interval needs 2 images and draws or more, not {count} and {draws}")
    means = differences.mean(1)
    value = float(means.mean())
    parts = np.bincount(clusters, differences.mean(0) - value, count) * count / items
    of_clusters, freedom = variance_of_mean(parts)
    of_draws = float(means.var(ddof=1)) * (1 + 1 / draws)
    variance = of_clusters + of_draws
    if variance < ROUNDING**2:
        return unvaried(value, count, -1.0, 1.0)
    terms = of_clusters**2 / freedom + of_draws**2 / (draws - 1)
    stderr = math.sqrt(variance)
    return Estimate(value, stderr, plain_ends(value, stderr, student_quantile(variance**2 / terms)))


def _with_width(estimate: Estimate, count: int) -> Estimate:
    """Return the estimate of a gain; if no cluster varies, with the interval of `unvaried`."""
    return estimate if estimate.stderr >= ROUNDING else unvaried(estimate.value, count, -1.0, 1.0)


def _score(
    metric: str, differences: Floats, estimate: Estimate, at: Mapping[str, Any] | None
) -> Score:
    return Score(
        metric,
        at=at or {},
        n=differences.shape[-1],
        chance=0.0,
        unit="fraction",
        range=(-1.0, 1.0),
        **estimate._asdict(),
    )
