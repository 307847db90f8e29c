"""Trigram language models of captions, the text-only baseline."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.metrics.intervals import Floats

EDGES = re.compile(r"^\W+|\W+$")

START, END = "<s>", "</s>"

# Fewest occurrences of a bigram and of a trigram that is kept.
FEWEST = {2: 1, 3: 2}

# Counts above this are not discounted.
MOST_DISCOUNTED = 7

# A probability below this counts as 0, as in SRILM.
EPSILON = 3e-6

Gram = tuple[str, ...]


class LanguageModel(NamedTuple):
    """Log10 probabilities of n-grams, and log10 back-off weights of contexts."""

    probabilities: Mapping[Gram, float]
    backoffs: Mapping[Gram, float]

    def log10(self, context: Gram, word: str) -> float:
        """Return log10 p(word | up to two words before it). Raises KeyError for unknown words."""
        stored = self.probabilities.get((*context, word))
        if stored is not None:
            return stored
        if not context:
            raise KeyError(word)
        return self.backoffs.get(context, 0.0) + self.log10(context[1:], word)


def train_language_model(sentences: Iterable[Sequence[str]]) -> LanguageModel:
    """Train a trigram model on sentences, each a sequence of words, as SRILM 1.7.3 does.

    Departure: if no bigram occurs once, or none twice, or if all words follow a context but too
    rarely to be kept, SRILM gives the n-grams that it drops no probability and leaves them out. For
    example, trained on "a b" and "b a", three times each, SRILM's perplexity of the texts "a b a",
    "b b" and "a" is 2.149; here it is 3.067. SRILM also ignores sentences without words. Raises
    ValueError if there is no word, or a word is `<s>` or `</s>`.

    Example:
        >>> model = train_language_model([["a"], ["b"]])
        >>> round(10 ** model.log10(("<s>",), "a"), 4)  # 1 / (2 + 1): a third is for `</s>`
        0.3333
    """
    counts = _count_grams(sentences)
    words = {gram: n for gram, n in counts[1].items() if gram != (START,)}
    total = sum(words.values())
    model = LanguageModel({gram: _log10(n / total) for gram, n in words.items()}, {})
    for order in (2, 3):
        model = _with_order(model, counts[order], order, len(words))
    return model


def perplexity_statistics(model: LanguageModel, sentences: Iterable[Sequence[str]]) -> Floats:
    """Return [N, 3] per sentence: log10 probability, words predicted with `</s>`, unknown words.

    Unknown words are left out of the first two. `CORPORA["perplexity"]` of `vlbench.metrics.corpus`
    computes the perplexity from their sums.

    Example:
        >>> model = train_language_model([["a"], ["b"]])  # p(a | <s>) = 1 / 3, p(</s> | a) = 1 / 2
        >>> perplexity_statistics(model, [["a"], ["a", "c"]])[0].round(4).tolist()  # log10(1 / 6)
        [-0.7782, 2.0, 0.0]
    """
    rows = [_sentence_statistics(model, sentence) for sentence in sentences]
    return np.array(rows, np.float64).reshape(-1, 3)


def _sentence_statistics(model: LanguageModel, sentence: Sequence[str]) -> tuple[float, int, int]:
    _refuse_marks(sentence)
    log10, unknown = 0.0, 0
    padded = (START, *sentence, END)
    for i in range(1, len(padded)):
        if (padded[i],) in model.probabilities:
            log10 += model.log10(padded[max(0, i - 2) : i], padded[i])
        else:
            unknown += 1
    return log10, len(padded) - 1 - unknown, unknown


def _refuse_marks(sentence: Sequence[str]) -> None:
    if isinstance(sentence, str) or START in sentence or END in sentence:
        rule = f"a sentence must be a sequence of words without {START} and {END}"
        raise ValueError(f"sentence {sentence!r}: {rule}")


def _count_grams(sentences: Iterable[Sequence[str]]) -> dict[int, Counter[Gram]]:
    """Return how often each n-gram occurs, by its order."""
    counts: dict[int, Counter[Gram]] = {order: Counter() for order in (1, 2, 3)}
    for sentence in sentences:
        _refuse_marks(sentence)
        padded = (START, *sentence, END)
        for order, counter in counts.items():
            counter.update(zip(*(padded[i:] for i in range(order)), strict=False))
    if len(counts[1]) < 3:
        raise ValueError("a language model needs sentences with words")
    return counts


def _with_order(
    model: LanguageModel, counts: Mapping[Gram, int], order: int, vocabulary: int
) -> LanguageModel:
    """Return the model with the n-grams of the next order added."""
    discounts = _discounts(Counter(counts.values()))
    followers: defaultdict[Gram, dict[str, int]] = defaultdict(dict)
    for gram, n in counts.items():
        followers[gram[:-1]][gram[-1]] = n
    probabilities, backoffs = dict(model.probabilities), dict(model.backoffs)
    for context, seen in followers.items():
        kept = _discount(seen, discounts, FEWEST[order], vocabulary)
        lower = sum(10 ** model.log10(context[1:], word) for word in kept)
        scale, backoffs[context] = _left_over(sum(kept.values()), lower)
        for word, p in kept.items():
            probabilities[*context, word] = _log10(p * scale)
    return LanguageModel(probabilities, backoffs)


def _discounts(times: Mapping[int, int]) -> dict[int, float]:
    """Return the factors of counts 1 to 7, given how many n-grams have each count.

    Good-Turing in Katz's form (1987). The highest discounted count is lowered while no n-gram has
    the next count, and there are no discounts if no n-gram occurs once. The factor is 1 if Turing's
    factor is larger than 1, and if it would be 0 or less.
    """
    most = MOST_DISCOUNTED if times.get(1) else 0
    while most and not times.get(most + 1):
        most -= 1
    factors = dict.fromkeys(range(1, most + 1), 1.0)
    for n in factors:
        common = (most + 1) * times[most + 1] / times[1]
        turing = (n + 1) * times.get(n + 1, 0) / (n * times[n]) if times.get(n) else math.inf
        factor = (turing - common) / (1 - common) if turing <= 1 and common != 1 else 0.0
        factors[n] = factor if factor > EPSILON else 1.0
    return factors


def _discount(
    seen: Mapping[str, int], discounts: Mapping[int, float], fewest: int, vocabulary: int
) -> dict[str, float]:
    """Return the probabilities of the words kept after a context.

    If no probability is left for other words, the denominator is increased by 1 repeatedly (Doug
    Paul).
    """
    kept = {word: n * discounts.get(n, 1.0) for word, n in seen.items() if n >= fewest}
    total, mass = sum(seen.values()), sum(kept.values())
    while len(kept) < vocabulary and mass > total * (1 - EPSILON):
        total += 1
    return {word: n / total for word, n in kept.items()}


def _left_over(mass: float, lower: float) -> tuple[float, float]:
    """Return a factor for the n-grams of a context, and the log10 back-off weight of the context.

    `mass` is the summed probability of the n-grams, `lower` the sum for the same words one order
    lower. If no word is left to back off to, the n-grams get all probability.
    """
    if 1 - lower < EPSILON:
        return (1 / mass if mass < 1 else 1.0), 0.0
    return 1.0, _log10((1 - mass) / (1 - lower))


def _log10(p: float) -> float:
    return float(f"{math.log10(p):.7g}")


class TextScorer:
    """Scores texts by a trigram model of captions: the mean log10 probability per word.

    It is the negative log10 of the perplexity. Words that do not occur in the captions are left
    out, and the end counts as a word.

    Example:
        >>> scorer = TextScorer([["A.", "B."]])  # p(a | <s>) = 1 / 3, p(</s> | a) = 1 / 2
        >>> round(float(scorer(["A"])), 4)  # log10(1 / 6) / 2
        -0.3891
    """

    def __init__(self, captions: Iterable[Iterable[str]]) -> None:
        """Train on all captions of each image, in lower case and without punctuation."""
        sentences = (caption_words(text) for of_image in captions for text in of_image)
        self._model: LanguageModel = train_language_model(words for words in sentences if words)

    def __call__(self, texts: list[str]) -> Tensor:
        """Return the score of each text, float64 [N], at most 0."""
        distinct = list(dict.fromkeys(texts))
        statistics = self.statistics(distinct)
        scores = dict(zip(distinct, (statistics[:, 0] / statistics[:, 1]).tolist(), strict=True))
        return torch.tensor([scores[text] for text in texts], dtype=torch.float64)

    def statistics(self, texts: Sequence[str]) -> Floats:
        """Return the statistics [N, 3] of the perplexity of each text."""
        return perplexity_statistics(self._model, [caption_words(text) for text in texts])


def words_of(text: str) -> list[str]:
    """Return the words of a text, split at white space, in lower case, without outer punctuation.

    A word of punctuation only becomes an empty word, so that each word keeps its position.

    Example:
        >>> words_of('"A dog" - he said.')
        ['a', 'dog', '', 'he', 'said']
    """
    return [EDGES.sub("", word.lower()) for word in text.split()]


def caption_words(text: str) -> list[str]:
    """Return the words of a caption, in lower case and without punctuation.

    Example:
        >>> caption_words('"A dog" - he said.')
        ['a', 'dog', 'he', 'said']
    """
    return [word for word in words_of(text) if word]
