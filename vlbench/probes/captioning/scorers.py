"""Scores of texts for images: a model's matching score, and the controls beside it.

What is preferred for another test image as well is no matter of the image, and what a trigram model
of the training captions prefers can be told without any image.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import DualEncoder, ImageTextScorer
from vlbench.data.records import Split, derangement
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows, counted
from vlbench.metrics.intervals import Floats
from vlbench.probes.captioning.nouns import words_of

# A row of a split, and a text.
Pair = tuple[int, str]

# On so many pairs the two towers of a model must give what its `score_pairs` gives, up to this
# share of the largest score, before they stand in for it.
TRIED = 4
TOLERANCE = 1e-5


class PairScorer:
    """Scores texts for the images of a split; the work is spread over the processes.

    A model of two towers whose similarity is its matching score sees each image once, however many
    texts are scored for it, now or in later calls.
    """

    def __init__(self, model: ImageTextScorer, split: Split, engine: Engine) -> None:
        self.rows = split
        self._model, self._engine = model, engine
        self._by_towers: bool | None = None if isinstance(model, DualEncoder) else False
        self._images: Tensor | None = None

    def __call__(self, rows: Sequence[int], texts: Sequence[str]) -> Tensor:
        """Return the score of each text for the image of its row of the split, float32 [N].

        Raises DataError, naming model, image and text, for a score that is no finite number, and
        ValueError for a wrong number of scores.
        """
        wanted = list(zip(rows, texts, strict=True))
        pairs = sorted(dict.fromkeys(wanted), key=lambda pair: pair[0])
        scores = dict(zip(pairs, self._score(pairs), strict=True))
        return torch.tensor([scores[pair] for pair in wanted], dtype=torch.float32)

    def _score(self, pairs: Sequence[Pair]) -> list[float]:
        if self._by_towers is None and pairs:
            self._by_towers = self._agree(pairs[:TRIED])
        if self._by_towers:
            return self._cosines(pairs)
        return self._engine.spread(self._own_scores, pairs)

    def _agree(self, pairs: Sequence[Pair]) -> bool:
        """Return whether the similarity of the two towers is the matching score."""
        own = torch.tensor(self._engine.spread(self._own_scores, pairs))
        gap = (own - torch.tensor(self._cosines(pairs))).abs().max()
        return bool(gap <= TOLERANCE * own.abs().max())

    def _own_scores(self, pairs: Sequence[Pair]) -> list[float]:
        """Return what `score_pairs` gives, the texts of an image with the same picture."""
        rows = dict.fromkeys(row for row, _ in pairs)
        pictures = {row: self.rows["picture"][row] for row in rows}
        texts = [text for _, text in pairs]
        score_pairs = self._engine.checked(self._model.score_pairs)
        scores = score_pairs([pictures[row] for row, _ in pairs], texts)
        if scores.shape != (len(pairs),):
            raise ValueError(
                f"score_pairs of {self._name} gave {list(scores.shape)} for {len(pairs)} pairs"
            )
        return self._require_finite(pairs, scores)

    @torch.no_grad()
    def _cosines(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the similarity of each text's vector and its image's."""
        model, device = self._model, self._engine.device
        assert isinstance(model, DualEncoder)
        if self._images is None:
            self._images = self._engine.features(model.encode_images, self.rows["image"])
        texts = list(dict.fromkeys(text for _, text in pairs))
        encode_texts = self._engine.checked(model.encode_texts)
        encoded = self._engine.spread(lambda some: list(encode_texts(some).cpu()), texts)
        vectors = dict(zip(texts, encoded, strict=True))
        scores = [
            model.similarity(
                self._images[[row]].to(device),
                torch.stack([vectors[text] for _, text in group]).to(device),
            )[0].cpu()
            for row, group in groupby(pairs, key=lambda pair: pair[0])
        ]
        return self._require_finite(pairs, torch.cat(scores))

    def _require_finite(self, pairs: Sequence[Pair], scores: Tensor) -> list[float]:
        values = scores.float().cpu()
        bad = (~values.isfinite()).nonzero()
        if len(bad):
            row, text = pairs[int(bad[0])]
            image = self.rows["picture"].examples().ids[row]
            raise DataError(
                f"{self._name} gave the score {values[bad[0]].item()} to image {image} with the "
                f"text {text!r:.80}; a score is a finite number"
            )
        return values.tolist()

    @property
    def _name(self) -> str:
        return self._engine.name_of(self._model)


START, END = "<s>", "</s>"

# Bigrams and trigrams: fewest occurrences of one that is kept.
FEWEST = {2: 1, 3: 2}

# Counts above this are not discounted.
MOST_DISCOUNTED = 7

# A probability below this counts as none, as in SRILM.
EPSILON = 3e-6

Gram = tuple[str, ...]


class LanguageModel(NamedTuple):
    """Log10 probabilities of n-grams by their words, and log10 back-off weights of contexts."""

    probabilities: Mapping[Gram, float]
    backoffs: Mapping[Gram, float]

    def log10(self, context: Gram, word: str) -> float:
        """Return log10 p(word | up to two words before it). Raises KeyError for unknown words."""
        known = self.probabilities.get((*context, word))
        if known is not None:
            return known
        if not context:
            raise KeyError(word)
        return self.backoffs.get(context, 0.0) + self.log10(context[1:], word)


def train_language_model(sentences: Iterable[Sequence[str]]) -> LanguageModel:
    """Return the trigram model of sentences, each a sequence of words, as SRILM 1.7.3 makes it.

    Departure: where no bigram occurs once, or none twice, or all words follow some other but not
    often enough, SRILM gives what it does not keep no probability and leaves it out, so that of "a
    b" and "b a", thrice each, the texts "a b a", "b b" and "a" have a perplexity of 2.149; here
    they have 3.066. Nor does SRILM count sentences without words.
    Raises ValueError where there is no word, or a word is `<s>` or `</s>`.
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

    Unknown words are left out of the first two. The perplexity of the sums is that of
    `vlbench.metrics.corpus`, named "perplexity".
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
        wanted = f"wanted a sequence of words, none of them {START} or {END}"
        raise ValueError(f"sentence {sentence!r}: {wanted}")


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
    """Return the model with the n-grams of one order more."""
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

    Katz's (1987) form of Good-Turing. The highest count falls where no n-gram has the next, to
    none where no n-gram occurs once. The factor is 1 where Turing's own is larger, and where it
    would be 0 or less.
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
    """Return the probabilities of words that are kept after a context.

    Where they leave nothing for the others, the denominator grows by 1s, as Doug Paul does.
    """
    kept = {word: n * discounts.get(n, 1.0) for word, n in seen.items() if n >= fewest}
    total, mass = sum(seen.values()), sum(kept.values())
    while len(kept) < vocabulary and mass > total * (1 - EPSILON):
        total += 1
    return {word: n / total for word, n in kept.items()}


def _left_over(mass: float, lower: float) -> tuple[float, float]:
    """Return a factor for the n-grams of a context, and the log10 back-off weight it is left with.

    Given their summed probability, and that of the same words one order down. Where no word is left
    to back off to, the n-grams take all.
    """
    if 1 - lower < EPSILON:
        return (1 / mass if mass < 1 else 1.0), 0.0
    return 1.0, _log10((1 - mass) / (1 - lower))


def _log10(p: float) -> float:
    return float(f"{math.log10(p):.7g}")


def other_images(count: int, seed: int) -> list[int]:
    """Return another row for each of so many, drawn at random; each row stands for one other.

    Raises TooFewRows for fewer than two.
    """
    if count < 2:
        raise TooFewRows(f"{counted(count, 'image')}; the control of another image needs two")
    rows: list[int] = derangement(count, seed).tolist()
    return rows


class TextScorer:
    """Scores texts by a trigram model of captions: the mean log10 probability of a word.

    It is the negative log10 of the perplexity: words that the captions lack are left out, and the
    end counts as a word.
    """

    def __init__(self, rows: Split) -> None:
        """Train on all captions of the rows, in lower case and without punctuation."""
        sentences = (_words(text) for captions in rows["captions"] for text in captions)
        self._model: LanguageModel = train_language_model(words for words in sentences if words)

    def __call__(self, texts: list[str]) -> Tensor:
        """Return the score of each text, float64 [N], at most 0."""
        distinct = list(dict.fromkeys(texts))
        statistics = self.statistics(distinct)
        scores = dict(zip(distinct, (statistics[:, 0] / statistics[:, 1]).tolist(), strict=True))
        return torch.tensor([scores[text] for text in texts], dtype=torch.float64)

    def statistics(self, texts: Sequence[str]) -> Floats:
        """Return the statistics [N, 3] of the perplexity of each text."""
        return perplexity_statistics(self._model, [_words(text) for text in texts])


def seen_in_training(rows: Split, texts: Sequence[str]) -> int:
    """Return how many texts stand among the captions of these rows, but for case and marks."""
    asked = [tuple(_words(text)) for text in texts]
    wanted = set(asked)
    read = (tuple(_words(text)) for captions in rows["captions"] for text in captions)
    known = {words for words in read if words in wanted}
    return sum(words in known for words in asked)


def match_foils(
    scorer: TextScorer, texts: Sequence[str], candidates: Sequence[Sequence[str]]
) -> list[str]:
    """Return for each text one of its candidates, so that their scores do not tell which is which.

    Half of those chosen score above their texts, or as many as can, and the others below: the
    nearest candidate on its side. Which text has one above is chosen for the least differences.
    """
    gaps = [
        (scorer(list(foils)) - scorer([text])).numpy()
        for text, foils in zip(texts, candidates, strict=True)
    ]
    above, below = ([_distances(gap, side) for gap in gaps] for side in (1, -1))
    dearer = [up.min() - down.min() for up, down in zip(above, below, strict=True)]
    half = set(sorted(range(len(texts)), key=dearer.__getitem__)[: len(texts) // 2])
    chosen = []
    for i, foils in enumerate(candidates):
        first, second = (above, below) if i in half else (below, above)
        distances = first[i] if np.isfinite(first[i]).any() else second[i]
        chosen.append(foils[int(distances.argmin())])
    return chosen


def _distances(gaps: Floats, side: int) -> Floats:
    """Return the sizes of the gaps on a side, 1 above and -1 below; infinity for the others."""
    return np.where(side * gaps >= 0, np.abs(gaps), np.inf)


def _words(text: str) -> list[str]:
    return [word for word in words_of(text) if word]
