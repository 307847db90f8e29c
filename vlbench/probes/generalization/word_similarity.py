"""Word similarity: the correlation of cosines of word vectors with human similarity ratings.

The score is Spearman's correlation, over pairs of words, of their cosine with the similarity rated
by people, the usual score of WordSim-353 (Finkelstein et al. 2002, doi:10.1145/503104.503110) and
SimLex-999 (Hill, Reichart and Korhonen 2015, arXiv:1408.3456). A word has no context: its vector is
the vector of the word as a text, or the mean over its tokens if a model only encodes tokens. A pair
with a word that has no vector is left out and counted, so that scores of different models may be
over different pairs. A model of whole texts has a vector for every word, including unknown words. A
model whose cosines are all equal, which have no correlation, scores 0, chance.

The floor `word_permutations` is the 95 % quantile of the same correlation with the vectors randomly
permuted among the words of the pairs. Ideally only words of similar frequency would be exchanged,
because cosines depend on frequency; the data have no frequencies, so all words are exchanged.

Words occur in several pairs, which are then not independent. The variance is a jackknife variance
of the correlation on Fisher's scale (1921), leaving out each word with all its pairs
(`variance_over_pairs`). The contribution of a pair is the change of the correlation without it,
with ranks recomputed (Efron 1981). In simulations with word effects, 93 to 97 of 100 such intervals
covered the true value, but only 80 to 94 of Fisher's intervals for independent pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import TextEncoder, TokenEncoder
from vlbench.data.records import Split, TestRows, value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.intervals import (
    ROUNDING,
    Estimate,
    student_quantile,
    unvaried,
    variance_over_pairs,
)
from vlbench.results import Outcome, Score

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Correlation = Callable[[Floats, Floats], float]

# Without one of these pairs, the correlation of the others must not be limited to 1 or -1.
FEWEST_PAIRS = 4

PERMUTATIONS = 100

# Cosines of float32 vectors that differ by at most this are equal.
CONSTANT = 1e-6

# Cosines have so many decimals; float64 would have up to 16, the last of them rounding.
DECIMALS = 12

# Correlations are clipped to this before Fisher's transform, which is infinite at 1.
NEAREST = 1 - 1e-12

CONSTANT_NOTE = "all cosines are the same, so the correlation is at chance"


def word_similarity(
    model: TextEncoder | TokenEncoder,
    data: TestRows,
    engine: Engine,
    *,
    seed: int = 0,
) -> Outcome:
    """Return Spearman's correlation of cosines with human scores.

    Data have the columns word_a, word_b and score. Raises TooFewRows for fewer than 4 pairs, and
    CannotDo if fewer than 4 pairs have vectors.

    Args:
        seed: seed that draws the floor, vectors permuted among words.
    """
    test = data.splits["test"]
    if len(test) < FEWEST_PAIRS:
        raise TooFewRows(f"{len(test)} word pairs", FEWEST_PAIRS)
    words, pairs = _number_words(test)
    vectors, has_vector = _unit_vectors(model, engine, words)
    kept = has_vector[pairs].all(1)
    left_out, pairs = int((~kept).sum()), pairs[kept]
    human = np.array(list(test["score"]), np.float64)[kept]
    if len(pairs) < FEWEST_PAIRS:
        have = f"both words of {len(pairs)} of {len(test)} pairs"
        raise CannotDo(f"the model has vectors for {have}; a correlation needs {FEWEST_PAIRS}")
    alike = cosines(vectors, pairs)
    score = Score(
        metric="word_pair_spearman",
        n=len(pairs),
        chance=0.0,
        floors={"word_permutations": _floor(vectors, pairs, human, seed)},
        unit="correlation",
        **agreement(alike, human, pairs)._asdict(),
    )
    notes = [CONSTANT_NOTE] if is_constant(alike) else []
    if left_out:
        notes.append(f"{left_out} of {len(test)} pairs are left out: a word has no vector")
    counts = {"n": len(pairs), "pairs_left_out": left_out, "words": len(words)}
    counts["words_without_vector"] = int((~has_vector).sum())
    return Outcome(scores=[score], counts=counts, notes=notes)


def spearman(first: Floats, second: Floats) -> float:
    """Return Spearman's correlation of [N] and [N] values; ties have mean ranks; 0 for constants.

    Spearman 1904 (doi:10.2307/1412159): Pearson's correlation of ranks.
    """
    from scipy.stats import rankdata  # noqa: PLC0415 - planning a run must not wait for it

    if is_constant(first) or is_constant(second):
        return 0.0
    return pearson(rankdata(first), rankdata(second))


def pearson(first: Floats, second: Floats) -> float:
    """Return Pearson's correlation of [N] and [N] values; 0 for constants."""
    if is_constant(first) or is_constant(second):
        return 0.0
    centred = (values - values.mean() for values in (first, second))
    unit, other = (values / np.linalg.norm(values) for values in centred)
    return float(np.clip(unit @ other, -1, 1))


def is_constant(values: Floats) -> bool:
    """Return whether all values [N] are equal up to rounding."""
    return bool(np.ptp(values) <= CONSTANT)


def agreement(
    alike: Floats, human: Floats, pairs: Places, correlation: Correlation = spearman
) -> Estimate:
    """Return the correlation of N >= 4 pairs, by default Spearman's, with its interval.

    `pairs` [N, 2] are the numbers of their words, from 0. If no pair changes the correlation, the
    fraction `unseen` of pairs may be at either end of the range.
    """
    n, value = len(pairs), correlation(alike, human)
    less = [correlation(np.delete(alike, i), np.delete(human, i)) for i in range(n)]
    on_scale = np.arctanh(np.clip(less, -NEAREST, NEAREST))
    parts = (n - 1) * (on_scale.mean() - on_scale)
    variance, freedom = variance_over_pairs(parts[None], pairs)
    error = math.sqrt(variance)
    if error < ROUNDING:
        return unvaried(value, n, -1.0, 1.0)
    centre, half = math.atanh(np.clip(value, -NEAREST, NEAREST)), student_quantile(freedom) * error
    interval = (math.tanh(centre - half), math.tanh(centre + half))
    return Estimate(value, (1 - value**2) * error, interval)


def cosines(vectors: Tensor, pairs: Places) -> Floats:
    """Return the cosine of each of [N, 2] pairs of unit vectors [W, D]; 0 for a zero vector.

    Cosines that differ only by rounding are made equal, because ranks would tell them apart: those
    of words with themselves, and of vectors of counts.
    """
    first, second = vectors[pairs[:, 0]], vectors[pairs[:, 1]]
    return (first * second).sum(1).round(decimals=DECIMALS).numpy()


def _floor(vectors: Tensor, pairs: Places, human: Floats, seed: int) -> float:
    """Return the 95 % quantile of correlations with the vectors of these pairs' words permuted."""
    used, places = np.unique(pairs, return_inverse=True)
    numbers, rng = places.reshape(pairs.shape), np.random.default_rng(seed)
    drawn = (used[rng.permutation(len(used))] for _ in range(PERMUTATIONS))
    correlations = [spearman(cosines(vectors, order[numbers]), human) for order in drawn]
    return float(np.quantile(correlations, 0.95))


def _number_words(test: Split) -> tuple[list[str], Places]:
    """Return the W words of all pairs, sorted, and the places [N, 2] of each pair's words."""
    spelled = list(zip(test["word_a"], test["word_b"], strict=True))
    words = sorted({word for pair in spelled for word in pair})
    place = {word: i for i, word in enumerate(words)}
    return words, np.array([[place[word] for word in pair] for pair in spelled], np.intp)


def _unit_vectors(
    model: TextEncoder | TokenEncoder, engine: Engine, words: Sequence[str]
) -> tuple[Tensor, NDArray[np.bool_]]:
    """Return unit vectors float64 [W, D], 0 if a word has no vector, and which words have one."""
    texts = value_column(words, "text")
    if isinstance(model, TextEncoder):
        vectors = list(engine.features(model.encode_texts, texts))
    else:
        encode = engine.checked(model.encode_tokens)

        def of_words(batch: Sequence[str]) -> list[Tensor]:
            encoded = encode(batch)
            return [
                one.vectors.float().mean(0).cpu() if covers(one.spans, word) else torch.empty(0)
                for word, one in zip(batch, encoded, strict=True)
            ]

        vectors = engine.map(of_words, texts)
    width = max(map(len, vectors))
    has_vector = np.array([len(vector) > 0 for vector in vectors])
    filled = [vector if len(vector) else torch.zeros(width) for vector in vectors]
    return torch.nn.functional.normalize(torch.stack(filled).double(), dim=1), has_vector


def covers(spans: Sequence[tuple[int, int]], word: str) -> bool:
    """Return whether there is a token, and tokens cover all letters and digits of a word."""
    inside = {i for start, stop in spans for i in range(start, stop)}
    return bool(spans) and all(i in inside for i, letter in enumerate(word) if letter.isalnum())
