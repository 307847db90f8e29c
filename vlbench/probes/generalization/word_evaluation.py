"""Evaluation of word vectors by gensim: analogies and the similarity of word pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from vlbench.data.word_files import read_judged_pairs
from vlbench.metrics import items
from vlbench.metrics.intervals import Estimate, mean_over_pairs
from vlbench.metrics.items import BOTH, Measured
from vlbench.probes.generalization.word_similarity import FEWEST_PAIRS, agreement, pearson, spearman
from vlbench.results import Score
from vlbench.system.digests import digest

# Fewest word pairs for a score of their analogies.
FEWEST_OF_ANALOGIES = 10


class WordAnswers(NamedTuple):
    """The right and wrong answers to questions whose words all have vectors.

    A question is four words; the last word is the answer.
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
        questions = (*self.correct, *self.incorrect)
        return [(f"{words[0]} {words[1]}", f"{words[2]} {words[3]}") for words in questions]

    @property
    def estimate(self) -> Estimate:
        """The accuracy, with an interval over word pairs."""
        numbers = np.unique(self.pairs, return_inverse=True)[1].reshape(-1, 2)
        credit = np.arange(self.total) < self.right
        return mean_over_pairs(credit, numbers)

    @property
    def wanted(self) -> Counter[str]:
        """How often each word is the answer to a question."""
        return Counter(words[-1] for words in (*self.correct, *self.incorrect))

    def measured(self, score: Score) -> Measured:
        """Return the accuracy with its questions; repeated questions are numbered."""
        questions = [" ".join(words) for words in (*self.correct, *self.incorrect)]
        times: Counter[str] = Counter()
        ids = []
        for question in questions:
            times[question] += 1
            ids.append(f"{question} #{times[question]}" if times[question] > 1 else question)
        names = sorted(self.wanted)
        answers = [names.index(question.split()[-1]) for question in questions]
        predicted = [*answers[: self.right], *(-1 for _ in self.incorrect)]
        credit = [1.0] * self.right + [0.0] * len(self.incorrect)
        clusters = [BOTH.join(pair) for pair in self.pairs]
        examples = items.Examples(ids, [digest(question) for question in questions], clusters)
        return Measured(score, examples, credit, items.Answers(names, predicted, answers))


class Agreement(NamedTuple):
    """Correlations of cosines with human judgements, over pairs with vectors of both words.

    Correlations are None for fewer than 4 pairs.
    """

    pearson: Estimate | None
    spearman: Estimate | None
    pairs: int


def keyed_vectors(words: Sequence[str], vectors: Tensor) -> Any:
    """Return vectors [N, D] of words as gensim's KeyedVectors; cosines of a zero vector are 0."""
    from gensim.models import KeyedVectors  # noqa: PLC0415 - half a second, for one probe

    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors(list(words), vectors.numpy())
    keyed.fill_norms(force=True)
    # gensim would divide by zero.
    keyed.norms[keyed.norms == 0] = 1
    return keyed


def analogies(vectors: Any, questions: Path) -> dict[str, WordAnswers]:
    """Return the answers of 3CosAdd (Mikolov et al. 2013) per section, ignoring case."""
    _, sections = vectors.evaluate_word_analogies(str(questions), restrict_vocab=len(vectors))
    # The last section is the total.
    return {s["section"]: WordAnswers(s["correct"], s["incorrect"]) for s in sections[:-1]}


def similarity(vectors: Any, pairs: Path) -> Agreement:
    """Return the agreement of cosines with the judgements in a file of pairs, ignoring case."""
    # If words differ only in case, the first counts, as in gensim.
    names = {word.upper(): word for word in reversed(vectors.index_to_key)}
    judged = [
        (names[a.upper()], names[b.upper()], score)
        for a, b, score in read_judged_pairs(pairs)
        if a.upper() in names and b.upper() in names
    ]
    if len(judged) < FEWEST_PAIRS:
        return Agreement(None, None, len(judged))
    alike = np.array([float(vectors.similarity(a, b)) for a, b, _ in judged])
    human = np.array([score for *_, score in judged])
    words = np.unique([row[:2] for row in judged], return_inverse=True)[1].reshape(-1, 2)
    by_value, by_rank = (agreement(alike, human, words, rule) for rule in (pearson, spearman))
    return Agreement(by_value, by_rank, len(judged))
