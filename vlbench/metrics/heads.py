"""Heads as classifiers: which is best, and how good it is on images that did not choose it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.metrics.ranking import TIED

Floats = NDArray[np.float64]


class Halves(NamedTuple):
    """What each image earns by the heads that the other half chose, and these heads."""

    credit: Floats  # [images]
    chosen: list[int]  # the lowest of the best heads of each half


def split_half(credit: Floats, sizes: Floats, *, seed: int = 0) -> Halves:
    """Return what each image earns where each half of the images chooses the other's head.

    `credit` [images, K] are sums over an image's items, `sizes` [images] their number; images
    without items belong to no half. Heads tied for the best of a half count alike: an image earns
    their mean. Raises ValueError where fewer than two images have items.
    """
    held = np.flatnonzero(sizes > 0)
    if len(held) < 2:
        raise ValueError(f"{len(held)} images have items; two halves need two")
    order = np.random.default_rng(seed).permutation(held)
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    earned, chosen = np.zeros(len(sizes)), []
    for mine, other in (halves, halves[::-1]):
        best = best_heads(credit[mine].sum(0))
        chosen.append(best[0])
        earned[other] = credit[other][:, best].mean(1)
    return Halves(earned, chosen)


def best_heads(credit: Floats) -> list[int]:
    """Return which of [K] heads earn most; those within 1e-6 of the most are tied."""
    most = credit.max()
    found: list[int] = np.flatnonzero(credit >= most - TIED * abs(most)).tolist()
    return found
