"""Attention heads as classifiers: the best head, chosen on one half of the images for the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.errors import counted
from vlbench.metrics.ranking import TIED

Floats = NDArray[np.float64]


class Halves(NamedTuple):
    """The credit of each image under the head that the other half chose, and the chosen heads."""

    credit: Floats  # [images]
    chosen: list[int]  # the lowest of the best heads of each half
    judges: list[list[int]]  # the heads, tied for the best of the other half, of each image


def split_half(credit: Floats, sizes: Floats, *, seed: int = 0) -> Halves:
    """Return each image's credit where each half of the images chooses the head for the other half.

    `credit` [images, K] are sums over an image's items, `sizes` [images] the number of items;
    images without items belong to no half. Where heads are tied for the best of a half, an image
    of the other half earns their mean. Raises ValueError where fewer than two images have items.
    """
    images = np.flatnonzero(sizes > 0)
    if len(images) < 2:
        raise ValueError(f"{counted(len(images), 'image')} with items; two halves need two")
    order = np.random.default_rng(seed).permutation(images)
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    earned, chosen = np.zeros(len(sizes)), []
    judges: list[list[int]] = [[] for _ in sizes]
    for choosing, judged in (halves, halves[::-1]):
        best = best_heads(credit[choosing].sum(0))
        chosen.append(best[0])
        earned[judged] = credit[judged][:, best].mean(1)
        for image in judged:
            judges[image] = best
    return Halves(earned, chosen, judges)


def best_heads(credit: Floats) -> list[int]:
    """Return the heads with the highest of [K] credits; those within 1e-6 of it are tied."""
    most = credit.max()
    found: list[int] = np.flatnonzero(credit >= most - TIED * abs(most)).tolist()
    return found
