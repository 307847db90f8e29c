"""Measures of questions: statistics per image, from which scores are computed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from vlbench.data.records import derangement, value_column
from vlbench.engine import Engine
from vlbench.errors import SpecError
from vlbench.metrics.captions import (
    CAPTION_METRICS,
    CaptionMetrics,
    Captions,
    CaptionScore,
    plain_words,
    treebank_words,
)
from vlbench.metrics.corpus import CORPORA, TREEBANK
from vlbench.metrics.intervals import Floats
from vlbench.probes.question_generation.inputs import AskedImages, names_a_thing

_AS_THEY_STAND = tuple(name for name in CAPTION_METRICS if name != "spice")

QUESTION_METRICS = (*_AS_THEY_STAND, *(f"{name}{TREEBANK}" for name in _AS_THEY_STAND))

NOUN, DISTINCT, SEEN, LENGTH = (
    *("noun_accuracy", "distinct_questions"),
    *("questions_seen_in_training", "question_length"),
)

# Mean CIDEr over all ways of leaving out one reference.
LEAVE_ONE_OUT = "cider_leave_one_out"


class QuestionMetrics:
    """The metrics of these names, a context manager that ends METEOR's process.

    Raises SpecError for an unknown metric, and DataAbsent if Java or a package is absent.
    """

    def __init__(self, names: Sequence[str] = QUESTION_METRICS) -> None:
        unknown = sorted(set(names) - set(QUESTION_METRICS))
        if unknown or not names:
            metrics = ", ".join(QUESTION_METRICS)
            raise SpecError(f"metrics of questions: unknown {unknown}; there are {metrics}")
        self._names = list(names)
        # A single object for both tokenisations, because METEOR's process takes 1.2 GB.
        kinds = dict.fromkeys(name.removesuffix(TREEBANK) for name in names)
        self._metrics = CaptionMetrics(list(kinds))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._metrics.__exit__(*error)

    def __call__(self, questions: Captions, references: Captions) -> dict[str, CaptionScore]:
        """Return each metric of a question per image against all references of the image.

        Raises what `CaptionMetrics` does.
        """
        scores_by_metric: dict[str, CaptionScore] = {}
        for words, mark in ((plain_words, ""), (treebank_words, TREEBANK)):
            if any(name.endswith(TREEBANK) == bool(mark) for name in self._names):
                scores = self._metrics(questions, references, words=words)
                scores_by_metric |= {f"{name}{mark}": score for name, score in scores.items()}
        return {name: scores_by_metric[name] for name in self._names}


def simplify(question: str) -> str:
    """Return a question in the form of qgevalcap's data: lower case, with separate punctuation.

    A tokenizer's decoder may join words that people separate, and vice versa.
    """
    return " ".join(re.findall(r"\w+|[^\w\s]", question.lower()))


def most_frequent_question(questions: Sequence[Sequence[str]]) -> str:
    """Return the most frequent of all questions after `simplify`; of several, the first."""
    return Counter(simplify(text) for texts in questions for text in texts).most_common(1)[0][0]


def questions_of_nearest_captions(
    train: AskedImages, captions: Sequence[str], engine: Engine
) -> list[str]:
    """Return the question of the train image whose caption is nearest to each of the captions.

    Nearness is the cosine of TF-IDF vectors of words, with the idf of the train captions; of
    equally near captions, the first. The question is the question paired with the caption in
    training.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - slow to import

    captions_of_train = [caption for of_image in train.captions for caption in of_image]
    paired = [
        questions[j % len(questions)]
        for of_image, questions in zip(train.captions, train.questions, strict=True)
        for j in range(len(of_image))
    ]
    vectorizer = TfidfVectorizer(token_pattern=r"\w+")  # noqa: S106 - of words, no password
    vectors = vectorizer.fit_transform(captions_of_train).T.tocsr()

    def nearest(texts: Sequence[str]) -> list[str]:
        cosines = (vectorizer.transform(texts) @ vectors).toarray()
        return [paired[i] for i in cosines.argmax(1).tolist()]

    return engine.map(nearest, value_column(captions, "text"))


def other_rows(count: int, seed: int = 0) -> list[int]:
    """Return a seeded permutation of `count` rows without fixed points."""
    rows: list[int] = derangement(count, seed).tolist()
    return rows


class System(NamedTuple):
    """Questions of a step, or of one of its floors: one list of questions per seed.

    `floor` is empty for the step itself; a floor without a step belongs to all steps.
    """

    step: str
    floor: str
    questions: list[list[str]]


class MeasuredSystem(NamedTuple):
    """A system, and each metric's statistics float64 [seeds, N, K]; K = 1 for a mean."""

    system: System
    statistics: Mapping[str, Floats]

    def value(self, metric: str) -> float:
        """Return a metric over all seeds."""
        return score_of(metric, pool_seeds(metric, self.statistics[metric]))


def pool_seeds(metric: str, statistics: Floats) -> Floats:
    """Return statistics [N, K] pooled over seeds.

    A mean over images is averaged over seeds; a corpus score is computed from the questions of all
    seeds.
    """
    together: Floats = statistics.sum(0) if metric in CORPORA else statistics.mean(0)
    return together


def score_of(metric: str, statistics: Floats) -> float:
    """Return a metric from the statistics [N, K] of images."""
    if metric in CORPORA:
        return float(CORPORA[metric].formula(statistics.sum(0)))
    return float(statistics.mean())


class Measures:
    """Measures the questions of test images against their references."""

    def __init__(self, metrics: QuestionMetrics, test: AskedImages, train: AskedImages) -> None:
        self._metrics, self._test = metrics, test
        self._seen = frozenset(simplify(text) for texts in train.questions for text in texts)

    def __call__(self, system: System) -> MeasuredSystem:
        """Return the statistics of a system."""
        statistics = [
            self._of_seed(questions, self._test.questions) for questions in system.questions
        ]
        return MeasuredSystem(
            system, {m: np.stack([by_name[m] for by_name in statistics]) for m in statistics[0]}
        )

    def against_people(self, systems: Sequence[System]) -> list[MeasuredSystem]:
        """Return the CIDEr of systems and of people, all against the same number of references.

        In turn j, question j (modulo their number) of an image is left out of its references, and
        is the question of people; there are as many turns as the most questions of an image. A turn
        of people counts as a seed; a seed of a system has the mean of its turns. Images with one
        question are left out; the result is empty if this leaves fewer than two images.
        """
        rows = [i for i, texts in enumerate(self._test.questions) if len(set(texts)) > 1]
        if len(rows) < 2:
            return []
        own_questions = [self._test.questions[i] for i in rows]
        names = [self._test.names[i] for i in rows]
        turns = range(max(len(texts) for texts in own_questions))
        of_people = [[texts[j % len(texts)] for texts in own_questions] for j in turns]
        others = [[_without(texts, j % len(texts)) for texts in own_questions] for j in turns]
        people: dict[str, Floats] = {
            LEAVE_ONE_OUT: np.stack([self._cider(of_people[j], others[j]) for j in turns])
        }
        plain = [self._plain([simplify(text) for text in turn], names) for turn in of_people]
        # Whether a human question occurs in training is not a property of people.
        kept = [metric for metric in plain[0] if metric != SEEN]
        people |= {m: np.array([turn[m] for turn in plain], np.float64)[..., None] for m in kept}
        measured = [MeasuredSystem(System("people", "", of_people), people)]
        for system in systems:
            of_seeds = [[questions[i] for i in rows] for questions in system.questions]
            ciders = [np.mean([self._cider(seed, left) for left in others], 0) for seed in of_seeds]
            measured.append(MeasuredSystem(system, {LEAVE_ONE_OUT: np.stack(ciders)}))
        return measured

    def _cider(self, questions: Sequence[str], references: Sequence[Sequence[str]]) -> Floats:
        """Return the CIDEr [N, 1] of each question."""
        with QuestionMetrics(["cider"]) as cider:
            return cider(*_number_texts(questions, references))["cider"].statistics

    def _of_seed(
        self, questions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, Floats]:
        scores = self._metrics(*_number_texts(questions, references))
        plain = self._plain([simplify(question) for question in questions], self._test.names)
        return {name: score.statistics for name, score in scores.items()} | {
            name: np.array(values, np.float64)[:, None] for name, values in plain.items()
        }

    def _plain(
        self, questions: Sequence[str], names: Sequence[frozenset[str]]
    ) -> dict[str, list[float]]:
        """Return the measures of each question that need no references."""
        counts = Counter(questions)
        values = {
            # Equal questions count as one distinct question.
            DISTINCT: [1 / counts[question] for question in questions],
            SEEN: [float(question in self._seen) for question in questions],
            LENGTH: [float(len(question.split())) for question in questions],
        }
        if any(names):
            pairs = zip(questions, names, strict=True)
            values[NOUN] = [float(names_a_thing(*pair)) for pair in pairs]
        return values


def _number_texts(
    questions: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Captions, Captions]:
    """Return the question and the references of each image, after `simplify`."""
    generated: Captions = {i: [simplify(text)] for i, text in enumerate(questions)}
    return generated, {i: [simplify(text) for text in texts] for i, texts in enumerate(references)}


def _without(texts: Sequence[str], j: int) -> list[str]:
    return [*texts[:j], *texts[j + 1 :]]
