"""Skip-gram with negative sampling, some of whose vectors are held (gensim's Word2Vec)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.errors import DataError

# gensim passes over what a text has beyond so many words: longer ones come in pieces.
PIECE = 10_000

# The learning rate at the end of training, gensim's own.
LAST_RATE = 0.0001


class Recipe(NamedTuple):
    """How word vectors are trained."""

    vector_size: int
    epochs: int
    window: int
    negative: int
    learning_rate: float
    workers: int
    seed: int


class Vocabulary(NamedTuple):
    """Words with how often each occurs; of how many documents, pieces of these, and words."""

    words: list[str]
    counts: list[int]
    documents: int
    pieces: int
    tokens: int


@dataclass(frozen=True)
class Pieces:
    """The first `taken` documents of a corpus as lists of words, read anew each time."""

    corpus: Iterable[str]
    taken: int
    engine: Engine
    what: str

    def __iter__(self) -> Iterator[list[str]]:
        """Yield pieces of at most 10,000 words."""
        from gensim.utils import simple_preprocess  # noqa: PLC0415 - half a second, for one probe

        for text in self.engine.watched(self.what, islice(self.corpus, self.taken), self.taken):
            words = simple_preprocess(text)
            for start in range(0, len(words), PIECE):
                yield words[start : start + PIECE]


def read_vocabulary(
    engine: Engine, documents: Column, held: Sequence[str], size: int, share: float
) -> Vocabulary:
    """Return the most frequent words of a corpus, then those to be held that are not among them.

    A word to be held that never occurs counts 0. `share` is how much of the documents is read, from
    the first on. Raises DataError for a corpus without words, and where none of those occurs.
    """
    key = {"what": "vocabulary", "corpus": documents.key, "gensim": version("gensim")}
    setting = {"held": list(held), "size": size, "share": share}
    found = engine.once(key | setting, lambda: list(_count(engine, documents, held, size, share)))
    return Vocabulary(*found)


def word_vectors(
    engine: Engine,
    documents: Column,
    vocabulary: Vocabulary,
    recipe: Recipe,
    held: Sequence[str] = (),
    places: Tensor | None = None,
) -> Tensor:
    """Return vectors float32 [V, D] trained on a corpus, those of `held` words at `places` [H, D].

    The counts say how often each word is drawn and left out: they need not be the corpus's own.
    Several workers are quicker, but the vectors then differ from run to run.
    """
    key = {"what": "skip-gram", "corpus": documents.key, "gensim": version("gensim")}
    setting = vocabulary._asdict() | recipe._asdict() | {"held": list(held), "places": places}
    what = "skip-gram, held" if held else "skip-gram"
    pieces = Pieces(documents[0], vocabulary.documents, engine, what)
    found: Tensor = engine.once(
        key | setting, lambda: train(pieces, vocabulary, recipe, held, places)
    )
    return found


def train(
    pieces: Iterable[list[str]],
    vocabulary: Vocabulary,
    recipe: Recipe,
    held: Sequence[str] = (),
    places: Tensor | None = None,
) -> Tensor:
    """Return the vectors of `word_vectors`, without a store."""
    model = untrained(vocabulary, recipe)
    rows = [model.wv.key_to_index[word] for word in held]
    if places is not None:
        model.wv.vectors[rows] = places.numpy()
    # In float64, or shorter than the vocabulary, it would hold others: gensim checks neither.
    model.wv.vectors_lockf = np.ones(len(model.wv), dtype=np.float32)
    model.wv.vectors_lockf[rows] = 0
    before = model.wv.vectors[rows]
    model.train(pieces, total_examples=vocabulary.pieces, epochs=recipe.epochs)
    refuse_moved(before, model.wv.vectors[rows], held)
    return torch.from_numpy(model.wv[vocabulary.words])


def untrained(vocabulary: Vocabulary, recipe: Recipe) -> Any:
    """Return gensim's model with the vectors that it draws."""
    from gensim.models import Word2Vec  # noqa: PLC0415 - half a second, for one probe

    model = Word2Vec(
        sg=1,
        vector_size=recipe.vector_size,
        window=recipe.window,
        negative=recipe.negative,
        ns_exponent=0.75,
        alpha=recipe.learning_rate,
        min_alpha=min(LAST_RATE, recipe.learning_rate),
        min_count=1,
        workers=recipe.workers,
        seed=recipe.seed,
    )
    model.build_vocab_from_freq(dict(zip(vocabulary.words, vocabulary.counts, strict=True)))
    return model


def refuse_moved(before: Any, after: Any, words: Sequence[str]) -> None:
    """Raise RuntimeError where a row of [N, D] is not the same to the last bit."""
    moved = (before != after).any(1).nonzero()[0]
    if len(moved):
        raise RuntimeError(f"the vector of '{words[moved[0]]}' was to be held, and moved")


def _count(
    engine: Engine, documents: Column, held: Sequence[str], size: int, share: float
) -> Vocabulary:
    corpus = documents[0]
    taken = math.ceil(share * sum(1 for _ in corpus))
    counts: Counter[str] = Counter()
    n_pieces = 0
    for words in Pieces(corpus, taken, engine, "words of the corpus"):
        counts.update(words)
        n_pieces += 1
    if not counts:
        raise DataError(f"the corpus has no words, in {taken} documents")
    if not any(word in counts for word in held):
        some = ", ".join(held[:3])
        raise DataError(f"none of the {len(held)} visual words ({some}, ...) is in the corpus")
    frequent = dict.fromkeys([word for word, _ in counts.most_common(size)] + list(held))
    found = [counts[word] for word in frequent]
    return Vocabulary(list(frequent), found, taken, n_pieces, counts.total())
