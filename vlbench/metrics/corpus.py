"""Corpus scores: formulas of sums of statistics over items, by the name of their metric."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from vlbench.metrics.intervals import Floats, Formula, ratio

ORDERS = (1, 2, 3, 4)

# METEOR 1.5 for English (Denkowski and Lavie 2014): weight of recall against precision, exponent
# and weight of the fragmentation penalty, weight of content words against function words, and
# weights of exact, stem, synonym and paraphrase matches.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
MATCHES = {"exact": 1.0, "stem": 0.6, "synonym": 0.8, "paraphrase": 0.6}
_BLEU = (
    *(f"right {n}-grams" for n in ORDERS),
    *(f"{n}-grams" for n in ORDERS),
    "words",
    "words of the closest reference",
)
_METEOR = (
    *("words", "words of the reference", "function words", "function words of the reference"),
    *(
        f"{kind} matches, {words} words{of}"
        for kind in MATCHES
        for words in ("content", "function")
        for of in ("", " of the reference")
    ),
    *("pieces", "words matched", "words of the reference matched"),
)
_PERPLEXITY = ("log10 probability", "words predicted", "unknown words")
# The suffix of a metric over Penn Treebank words.
TREEBANK = "_ptb"


class CorpusScore(NamedTuple):
    """A corpus score: the names of an item's statistics, and the formula of their sums [..., S]."""

    statistics: tuple[str, ...]
    formula: Formula


def bleu(sums: Floats, order: int) -> Floats:
    """Return BLEU (Papineni et al. 2002) of n-grams of 1 to `order` words, [..., 10] to [...].

    Statistics are listed in `CORPORA`. The reference length of an item is the length closest to the
    caption's. The two small constants are from the code of coco-caption.

    Example:
        >>> equal = np.array([4, 3, 2, 1, 4, 3, 2, 1, 4, 4])  # n-grams of four words, all right
        >>> shorter = np.array([3, 2, 1, 0, 3, 2, 1, 0, 3, 4])  # the first three of four words
        >>> round(float(bleu(equal, 4)), 4), round(float(bleu(shorter, 1)), 4)  # exp(1 - 4 / 3)
        (1.0, 0.7165)
    """
    right, guessed = sums[..., :order], sums[..., 4 : 4 + order]
    precision = np.prod((right + 1e-15) / (guessed + 1e-9), -1) ** (1 / order)
    ratio = (sums[..., 8] + 1e-15) / (sums[..., 9] + 1e-9)
    shortness = np.exp(np.minimum(1 - 1 / ratio, 0))
    score: Floats = precision * shortness
    return score


def meteor(sums: Floats) -> Floats:
    """Return METEOR 1.5 (Denkowski and Lavie 2014), [..., 23] to [...]; 0 if no word matches.

    Example:
        >>> sums = np.zeros(23)
        >>> sums[[0, 1]] = 4  # words of the caption and the reference, all of them content words
        >>> sums[[4, 5, 21, 22]] = 2  # exact matches, and words matched
        >>> sums[20] = 1  # in one piece
        >>> round(float(meteor(sums)), 4)  # 0.5 * (1 - 0.6 * (1 / 2)^0.2)
        0.2388
    """
    matched = np.array(list(MATCHES.values())) @ sums[..., 4:20].reshape(*sums.shape[:-1], 4, 4)
    content, function = matched[..., :2], matched[..., 2:]
    lengths, functions = sums[..., 0:2], sums[..., 2:4]
    weights = DELTA * (lengths - functions) + (1 - DELTA) * functions
    with np.errstate(divide="ignore", invalid="ignore"):
        weighted = (DELTA * content + (1 - DELTA) * function) / weights
        mean = 1 / ((1 - ALPHA) / weighted[..., 0] + ALPHA / weighted[..., 1])
        pieces = sums[..., 20] / sums[..., 21:23].mean(-1)
        score = mean * (1 - GAMMA * pieces**BETA)
    return np.where(sums[..., 21] > 0, score, 0.0)


def perplexity(sums: Floats) -> Floats:
    """Return 10^(-log10 probability / words predicted), [..., 3] to [...]; NaN for no words.

    Example:
        >>> round(float(perplexity(np.array([-6.0, 3.0, 0.0]))), 4)  # 10^(6 / 3)
        100.0
    """
    score: Floats = 10 ** -(sums[..., 0] / sums[..., 1])
    return score


_TEXTS = {
    **{f"bleu_{n}": CorpusScore(_BLEU, partial(bleu, order=n)) for n in ORDERS},
    "meteor": CorpusScore(_METEOR, meteor),
}

# Over images that are classified correctly before an attack; these images differ between models.
_GIVEN_CORRECT = CorpusScore(("successes among the correct", "correct"), ratio)


CORPORA: Mapping[str, CorpusScore] = {
    **_TEXTS,
    **{f"{name}{TREEBANK}": corpus for name, corpus in _TEXTS.items()},
    "perplexity": CorpusScore(_PERPLEXITY, perplexity),
    "compression": CorpusScore(("bits among equally likely classes", "bits of the code"), ratio),
    "success_given_correct": _GIVEN_CORRECT,
    "success_early_stop_given_correct": _GIVEN_CORRECT,
}
