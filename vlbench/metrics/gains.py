"""Gains: how much more items earn under one condition than under another, paired by item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vlbench.metrics.intervals import clustered_ratio
from vlbench.metrics.items import Examples, Measured
from vlbench.results import Score

# Floors of a model that is asked: with the image of another cluster, and with the text alone.
ANOTHER, ALONE = "another_image", "text_alone"
NAMES = {ALONE: "gain_over_text_alone", ANOTHER: "gain_from_image"}


def gains(
    metric: str, credit: ArrayLike, floors: Mapping[str, ArrayLike], examples: Examples
) -> list[Measured]:
    """Return how much more a model earns than with the text alone, and than with another image."""
    return [
        gain(f"{metric}_{name}", credit, floors[floor], examples)
        for floor, name in NAMES.items()
        if floor in floors
    ]


def gain(
    metric: str,
    credit: ArrayLike,
    other: ArrayLike,
    examples: Examples,
    at: Mapping[str, Any] | None = None,
) -> Measured:
    """Return the mean of one credit [N] less another, each in [0, 1], of the same examples.

    Its interval is that of a paired difference over clusters. Raises TooFewRows for fewer than two
    clusters.
    """
    difference = np.asarray(credit, np.float64) - np.asarray(other, np.float64)
    _, places = np.unique(examples.clusters or examples.ids, return_inverse=True)
    estimate = clustered_ratio(np.bincount(places, difference), np.bincount(places))
    score = Score(
        metric,
        at=at or {},
        n=len(difference),
        chance=0.0,
        unit="fraction",
        range=(-1.0, 1.0),
        **estimate._asdict(),
    )
    return Measured(score, examples, difference)
