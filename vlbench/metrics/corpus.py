"""Corpus scores: formulas of sums of statistics over items, by the name of their metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from vlbench.metrics.statistics import Floats

ORDERS = (1, 2, 3, 4)


class Corpus(NamedTuple):
    """A corpus score: what each statistic of an item is, and the score of their sums [..., S]."""

    statistics: tuple[str, ...]
    formula: Callable[[Floats], Floats]


def bleu(sums: Floats, order: int) -> Floats:
    """Return BLEU (Papineni et al. 2002) of n-grams of 1 to `order` words, [..., 10] to [...].

    Statistics are those of `CORPORA`. The reference length of an item is the closest to the
    caption's. The two small numbers are those of the code of coco-caption.
    """
    right, guessed = sums[..., :order], sums[..., 4 : 4 + order]
    precision = np.prod((right + 1e-15) / (guessed + 1e-9), -1) ** (1 / order)
    ratio = (sums[..., 8] + 1e-15) / (sums[..., 9] + 1e-9)
    shortness = np.exp(np.minimum(1 - 1 / ratio, 0))
    score: Floats = precision * shortness
    return score


_BLEU = (
    *(f"right {n}-grams" for n in ORDERS),
    *(f"{n}-grams" for n in ORDERS),
    "words",
    "words of the closest reference",
)

CORPORA: Mapping[str, Corpus] = {f"bleu_{n}": Corpus(_BLEU, partial(bleu, order=n)) for n in ORDERS}
