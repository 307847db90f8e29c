"""Evaluation of word vectors by gensim: analogies and the similarity of word pairs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from vlbench.data.word_files import pair_delimiter, read_pairs
from vlbench.digests import digest
from vlbench.metrics import items
from vlbench.metrics.intervals import Z95, Estimate, mean_over_pairs
from vlbench.metrics.items import BOTH, Measured
from vlbench.results import Score

# The fewest pairs for which Fisher's interval exists, and those whose analogies have a score.
FEWEST_PAIRS, FEWEST_OF_ANALOGIES = 4, 10

# The variance of Fisher's z of a Spearman coefficient, as a multiple of Pearson's.
SPEARMAN = 1.06


class Answers(NamedTuple):
    """The questions answered correctly and incorrectly, of those whose words all have vectors.

    A question is its four words, the last of which is the answer.
    """

    correct: Sequence[Sequence[str]]
    incorrect: Sequence[Sequence[str]]

    @property
    def right(self) -> int:
        """The number of correct answers."""
        return len(self.correct)

    @property
    def total(self) -> int:
        """The number of questions."""
        return len(self.correct) + len(self.incorrect)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The two word pairs of each question."""
        several = (*self.correct, *self.incorrect)
        return [(f"{one[0]} {one[1]}", f"{one[2]} {one[3]}") for one in several]

    @property
    def estimate(self) -> Estimate:
        """The accuracy, where other word pairs would have made other questions."""
        numbers = np.unique(self.pairs, return_inverse=True)[1].reshape(-1, 2)
        credit = np.arange(self.total) < self.right
        return mean_over_pairs(credit, numbers)

    @property
    def wanted(self) -> Counter[str]:
        """How often each word is the answer to a question."""
        return Counter(words[-1] for words in (*self.correct, *self.incorrect))

    def measured(self, score: Score) -> Measured:
        """Return the accuracy with its questions; one that is asked again is numbered."""
        questions = [" ".join(words) for words in (*self.correct, *self.incorrect)]
        asked: Counter[str] = Counter()
        ids = []
        for question in questions:
            asked[question] += 1
            ids.append(f"{question} #{asked[question]}" if asked[question] > 1 else question)
        names = sorted(self.wanted)
        answers = [names.index(question.split()[-1]) for question in questions]
        predicted = [*answers[: self.right], *(-1 for _ in self.incorrect)]
        credit = [1.0] * self.right + [0.0] * len(self.incorrect)
        clusters = [BOTH.join(pair) for pair in self.pairs]
        examples = items.Examples(ids, [digest(question) for question in questions], clusters)
        return Measured(score, examples, credit, items.Answers(names, predicted, answers))


class Agreement(NamedTuple):
    """Correlations of cosines with human judgements, over pairs whose words both have vectors.

    They are None for fewer than 4 pairs.
    """

    pearson: Estimate | None
    spearman: Estimate | None
    pairs: int


def keyed_vectors(words: Sequence[str], vectors: Tensor) -> Any:
    """Return vectors [N, D] of words as gensim's KeyedVectors; a zero vector has cosine 0."""
    from gensim.models import KeyedVectors  # noqa: PLC0415 - half a second, for one probe

    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors(list(words), vectors.numpy())
    keyed.fill_norms(force=True)
    # gensim would divide by zero.
    keyed.norms[keyed.norms == 0] = 1
    return keyed


def analogies(vectors: Any, questions: Path) -> dict[str, Answers]:
    """Return the answers of 3CosAdd (Mikolov et al. 2013) per section, ignoring case."""
    _, sections = vectors.evaluate_word_analogies(str(questions), restrict_vocab=len(vectors))
    # The last section is the total.
    return {s["section"]: Answers(s["correct"], s["incorrect"]) for s in sections[:-1]}


def similarity(vectors: Any, pairs: Path) -> Agreement:
    """Return the agreement of cosines with the judgements in a file of pairs, ignoring case."""
    vocabulary = {word.upper() for word in vectors.index_to_key}
    used = sum(a.upper() in vocabulary and b.upper() in vocabulary for a, b in read_pairs(pairs))
    if used < FEWEST_PAIRS:
        return Agreement(None, None, used)
    # gensim passes over a line without a number, such as the header of a .csv.
    results = vectors.evaluate_word_pairs(
        str(pairs), delimiter=pair_delimiter(pairs), restrict_vocab=len(vectors)
    )
    pearson, spearman = (float(result[0]) for result in results[:2])
    return Agreement(fisher(pearson, used), fisher(spearman, used, spread=SPEARMAN), used)


def fisher(correlation: float, n: int, *, spread: float = 1.0) -> Estimate:
    """Return a correlation of n >= 4 independent pairs with the interval of Fisher's z.

    `spread` multiplies the variance of z. Raises ValueError for fewer pairs, and for NaN, the
    correlation of values that do not vary.
    """
    if n < FEWEST_PAIRS or math.isnan(correlation):
        raise ValueError(f"correlation {correlation} of {n} pairs: wanted 4 or more that vary")
    error = math.sqrt(spread / (n - 3))
    z = math.atanh(float(np.clip(correlation, -1 + 1e-12, 1 - 1e-12)))
    interval = (math.tanh(z - Z95 * error), math.tanh(z + Z95 * error))
    return Estimate(correlation, (1 - correlation**2) * error, interval)
