"""Questions that need no model: what a model that sees should beat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from vlbench.data.records import value_column
from vlbench.engine import Engine
from vlbench.probes.question_generation.reading import Asked
from vlbench.probes.question_generation.wording import compared


def most_frequent_question(questions: Sequence[Sequence[str]]) -> str:
    """Return the most frequent of all questions, as they are compared; the first of several."""
    return Counter(compared(text) for texts in questions for text in texts).most_common(1)[0][0]


def questions_of_nearest_captions(
    train: Asked, captions: Sequence[str], engine: Engine
) -> list[str]:
    """Return the question of the train image whose caption is nearest to each of the captions.

    Nearest by the cosine of TF-IDF over words, the idf that of the train captions; the first of
    equally near ones. The question is the one that is trained with the caption, modulo the number.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - slow to import

    told = [caption for of_image in train.captions for caption in of_image]
    paired = [
        questions[j % len(questions)]
        for of_image, questions in zip(train.captions, train.questions, strict=True)
        for j in range(len(of_image))
    ]
    vectorizer = TfidfVectorizer(token_pattern=r"\w+")  # noqa: S106 - of words, no password
    vectors = vectorizer.fit_transform(told).T.tocsr()

    def nearest(texts: Sequence[str]) -> list[str]:
        cosines = (vectorizer.transform(texts) @ vectors).toarray()
        return [paired[i] for i in cosines.argmax(1).tolist()]

    return engine.map(nearest, value_column(captions, "text"))


def other_rows(count: int, seed: int = 0) -> list[int]:
    """Return a seeded permutation of so many rows that leaves none in its place."""
    order = np.random.default_rng(seed).permutation(count)
    found = np.empty_like(order)
    found[order] = np.roll(order, 1)
    rows: list[int] = found.tolist()
    return rows
