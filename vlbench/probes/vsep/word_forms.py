"""Vectors of the names of fine-grained classes: by themselves, and in "A photo of a {label}".

A static encoder gives words the same vectors in any text (GloVe, random vectors). Its vector of an
object is that of the object's fine-grained class, as in arXiv:2107.12021, whichever form the
caption has. A name of several words is looked up as one word, `hot_dog`, which is how word2vec
spells phrases: random vectors have one per class then, as in the paper. Without one (GloVe), it is
the mean over the words of the name, as there. In the prompt a static encoder has the mean over all
words of the prompt, as in the paper: over the label alone nothing could drop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import TokenEncoder, TokenVectors
from vlbench.data.records import Column, value_column
from vlbench.data.words import tokens_at
from vlbench.engine import Engine
from vlbench.metrics.ranking import TIED

TEMPLATE = "A photo of a {label}"

Vectors = dict[str, Tensor | None]

# A model's `encode_tokens`.
Encode = Callable[[Sequence[str]], list[TokenVectors]]


class NameVectors(NamedTuple):
    """The vector [W] of each name, or None: by itself, and in the prompt; static or in context."""

    alone: Vectors
    prompted: Vectors
    static: bool

    @property
    def note(self) -> str:
        """Return a row's note on the words."""
        if self.static:
            return "words: the vectors of class names, since they are the same in any text"
        return "words: their vectors in the caption"


def name_vectors(words: TokenEncoder, names: Sequence[str], engine: Engine) -> NameVectors:
    """Return the vectors of names outside of captions."""
    encode_tokens = engine.checked(words.encode_tokens)

    def encode(names: Sequence[str]) -> list[Any]:
        joined = [name.replace(" ", "_") for name in names]
        # A joined name counts where it is one word of the encoder.
        one = [found.spans == [(0, len(text))] for found, text in _encoded(encode_tokens, joined)]
        return [
            [*plain, *(other if is_one else plain)]
            for plain, other, is_one in zip(
                _of(encode_tokens, names), _of(encode_tokens, joined), one, strict=True
            )
        ]

    key = {"what": "names of classes", "model": words}
    found = engine.map(encode, value_column(names, "text"), key=key) if names else []
    static = all(_same(row[0], row[1]) for row in found)
    # Alone and over the whole prompt, of the joined name; alone and in the prompt, of the name.
    chosen = [(row[3], row[5]) if static else (row[0], row[1]) for row in found]
    alone, prompted = ({n: row[i] for n, row in zip(names, chosen, strict=True)} for i in range(2))
    return NameVectors(alone, prompted, static)


def _encoded(encode_tokens: Encode, texts: Sequence[str]) -> list[tuple[TokenVectors, str]]:
    return list(zip(encode_tokens(texts), texts, strict=True))


def _of(encode_tokens: Encode, names: Sequence[str]) -> list[list[Tensor | None]]:
    """Return three vectors of each name: by itself, in the prompt, and of the whole prompt.

    The last is None where the name has no vector in the prompt.
    """
    start = TEMPLATE.index("{label}")
    prompts = encode_tokens([TEMPLATE.format(label=name) for name in names])
    rows = []
    for (alone, name), prompt in zip(_encoded(encode_tokens, names), prompts, strict=True):
        inside = mean_over(prompt, start, start + len(name))
        whole = None if inside is None else mean_over(prompt, 0, start + len(name))
        rows.append([mean_over(alone, 0, len(name)), inside, whole])
    return rows


def caption_vectors(
    words: TokenEncoder, texts: Column, named: Column, engine: Engine
) -> list[list[Tensor | None]]:
    """Return the vector [W] of each name in each text, or None where it has none."""
    encode_tokens = engine.checked(words.encode_tokens)

    def means(texts: Sequence[str], named: Sequence[Sequence[Any]]) -> list[Any]:
        encoded = encode_tokens(texts)
        pairs = zip(encoded, named, strict=True)
        return [[mean_over(found, n.start, n.end) for n in names] for found, names in pairs]

    return engine.map(means, texts, named, key={"what": "vectors of names", "model": words})


def mean_over(found: TokenVectors, start: int, end: int) -> Tensor | None:
    """Return the mean vector, float32 [W], of the tokens that overlap characters start..end."""
    rows = tokens_at(found.spans, start, end)
    return found.vectors[rows].float().mean(0).cpu() if rows else None


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.allclose(one, other, TIED, TIED)
