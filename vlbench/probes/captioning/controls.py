"""Controls of what a model prefers among texts: the texts of another image, and texts alone.

What is preferred for another test image as well is no matter of the image, and what a trigram model
of the training captions prefers can be told without any image.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from vlbench.data.records import Split
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.language_model import (
    LanguageModel,
    perplexity_statistics,
    train_language_model,
)
from vlbench.metrics.statistics import Floats
from vlbench.probes.captioning.nouns import words_of


def other_images(count: int, seed: int) -> list[int]:
    """Return another row for each of so many, drawn at random; each row stands for one other.

    Raises TooFewRows for fewer than two.
    """
    if count < 2:
        raise TooFewRows(f"{counted(count, 'image')}; the control of another image needs two")
    circle = np.random.default_rng(seed).permutation(count)
    others = np.empty(count, np.int64)
    others[circle] = np.roll(circle, 1)
    return [int(row) for row in others]


class TextScorer:
    """Scores texts by a trigram model of captions: the mean log10 probability of a word.

    It is the negative log10 of the perplexity: words that the captions lack are left out, and the
    end counts as a word.
    """

    def __init__(self, rows: Split) -> None:
        """Train on all captions of the rows, in lower case and without punctuation."""
        sentences = (_told(text) for captions in rows["captions"] for text in captions)
        self._model: LanguageModel = train_language_model(words for words in sentences if words)

    def __call__(self, texts: list[str]) -> Tensor:
        """Return the score of each text, float64 [N], at most 0."""
        distinct = list(dict.fromkeys(texts))
        found = self.statistics(distinct)
        scores = dict(zip(distinct, (found[:, 0] / found[:, 1]).tolist(), strict=True))
        return torch.tensor([scores[text] for text in texts], dtype=torch.float64)

    def statistics(self, texts: Sequence[str]) -> Floats:
        """Return the statistics [N, 3] of the perplexity of each text."""
        return perplexity_statistics(self._model, [_told(text) for text in texts])


def _told(text: str) -> list[str]:
    return [word for word in words_of(text) if word]
