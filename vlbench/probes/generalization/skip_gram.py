"""Skip-gram with negative sampling and some frozen vectors (gensim's Word2Vec).

Mikolov et al. 2013, arXiv:1310.4546.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.results import Positive

# gensim ignores the words of a text after this number, so longer texts are split.
PIECE = 10_000

# The learning rate at the end of training, gensim's default.
LAST_RATE = 0.0001


class SkipGram(NamedTuple):
    """The settings of gensim's Word2Vec; several workers are faster, but not reproducible."""

    vector_size: Positive = 300
    epochs: Positive = 5
    window: Positive = 5
    negative: int = 5
    learning_rate: float = 0.025
    workers: Positive = 1


# gensim's defaults, with the vectors of arXiv:2104.08313.
DEFAULT_SKIP_GRAM = SkipGram()


class CorpusWords(NamedTuple):
    """Words and their counts, and the numbers of documents, pieces and tokens of the corpus."""

    words: list[str]
    counts: list[int]
    documents: int
    pieces: int
    tokens: int


class FrozenVectors(NamedTuple):
    """Words with vectors float32 [H, D] that do not change in training."""

    words: Sequence[str]
    vectors: Tensor


@dataclass(frozen=True)
class CorpusPieces:
    """The first `n_documents` of a corpus as lists of at most 10,000 words, reread each time."""

    corpus: Iterable[str]
    n_documents: int
    engine: Engine
    what: str

    def __iter__(self) -> Iterator[list[str]]:
        """Yield pieces of at most 10,000 words."""
        from gensim.utils import simple_preprocess  # noqa: PLC0415 - half a second, for one probe

        documents = islice(self.corpus, self.n_documents)
        for text in self.engine.watched(self.what, documents, self.n_documents):
            words = simple_preprocess(text)
            for start in range(0, len(words), PIECE):
                yield words[start : start + PIECE]


def read_vocabulary(
    engine: Engine, documents: Column, visual_words: Sequence[str], size: int, fraction: float
) -> CorpusWords:
    """Return the `size` most frequent words of a corpus, then the visual words not among them.

    A visual word that never occurs has the count 0. The first `fraction` of the documents is read.
    Raises DataError for a corpus without words, or without any visual word.
    """
    key = {"what": "vocabulary", "corpus": documents.key, "size": size, "fraction": fraction}
    stored = engine.once(
        key | {"visual words": list(visual_words)},
        lambda: list(_count(engine, documents, visual_words, size, fraction)),
    )
    return CorpusWords(*stored)


def word_vectors(
    engine: Engine,
    documents: Column,
    vocabulary: CorpusWords,
    settings: SkipGram,
    seed: int,
    frozen: FrozenVectors | None = None,
) -> Tensor:
    """Return vectors float32 [V, D] trained on a corpus; vectors of `frozen` words are unchanged.

    The counts of the vocabulary determine negative sampling and sub-sampling; they may differ from
    the counts in the corpus.
    """
    key = {"what": "skip-gram", "corpus": documents.key, "seed": seed}
    key |= vocabulary._asdict() | settings._asdict()
    key["frozen"] = frozen and [list(frozen.words), frozen.vectors]
    what = "skip-gram, frozen words" if frozen else "skip-gram"
    pieces = CorpusPieces(documents[0], vocabulary.documents, engine, what)
    engine.trained = True
    vectors: Tensor = engine.once(key, lambda: train(pieces, vocabulary, settings, seed, frozen))
    return vectors


def train(
    pieces: Iterable[list[str]],
    vocabulary: CorpusWords,
    settings: SkipGram,
    seed: int,
    frozen: FrozenVectors | None,
) -> Tensor:
    """Return the vectors of `word_vectors`, trained anew."""
    model = make_untrained(vocabulary, settings, seed)
    words = list(frozen.words) if frozen else []
    rows = [model.wv.key_to_index[word] for word in words]
    if frozen:
        model.wv.vectors[rows] = frozen.vectors.numpy()
    # gensim would freeze the wrong words, without an error, if this were float64 or shorter than
    # the vocabulary.
    model.wv.vectors_lockf = np.ones(len(model.wv), dtype=np.float32)
    model.wv.vectors_lockf[rows] = 0
    before = model.wv.vectors[rows]
    model.train(pieces, total_examples=vocabulary.pieces, epochs=settings.epochs)
    require_unmoved(before, model.wv.vectors[rows], words)
    return torch.from_numpy(model.wv[vocabulary.words])


def make_untrained(vocabulary: CorpusWords, settings: SkipGram, seed: int) -> Any:
    """Return gensim's model with its initial vectors."""
    from gensim.models import Word2Vec  # noqa: PLC0415 - half a second, for one probe

    model = Word2Vec(
        sg=1,
        vector_size=settings.vector_size,
        window=settings.window,
        negative=settings.negative,
        ns_exponent=0.75,
        alpha=settings.learning_rate,
        min_alpha=min(LAST_RATE, settings.learning_rate),
        min_count=1,
        workers=settings.workers,
        seed=seed,
    )
    model.build_vocab_from_freq(dict(zip(vocabulary.words, vocabulary.counts, strict=True)))
    return model


def require_unmoved(before: Any, after: Any, words: Sequence[str]) -> None:
    """Raise RuntimeError if a row of [N, D] differs in any bit."""
    moved = (before != after).any(1).nonzero()[0]
    if len(moved):
        raise RuntimeError(f"the vector of '{words[moved[0]]}' changed, but it must be frozen")


def _count(
    engine: Engine, documents: Column, visual_words: Sequence[str], size: int, fraction: float
) -> CorpusWords:
    corpus = documents[0]
    n_documents = math.ceil(fraction * sum(1 for _ in corpus))
    counts: Counter[str] = Counter()
    n_pieces = 0
    for words in CorpusPieces(corpus, n_documents, engine, "words of the corpus"):
        counts.update(words)
        n_pieces += 1
    if not counts:
        raise DataError(f"the corpus has no words in {n_documents} documents")
    if not any(word in counts for word in visual_words):
        some = ", ".join(visual_words[:3])
        raise DataError(
            f"none of the {len(visual_words)} visual words ({some}, ...) is in the corpus"
        )
    frequent = [word for word, _ in counts.most_common(size)]
    words = list(dict.fromkeys([*frequent, *visual_words]))
    numbers = [counts[word] for word in words]
    return CorpusWords(words, numbers, n_documents, n_pieces, counts.total())
