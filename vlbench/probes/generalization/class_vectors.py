"""Vectors of class names from a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor

from vlbench.capabilities import DualEncoder, TextEncoder, TokenEncoder
from vlbench.data.records import value_column
from vlbench.data.words import tokens_at
from vlbench.engine import Engine
from vlbench.errors import CannotDo


def class_vectors(
    engine: Engine, words: TokenEncoder | TextEncoder, names: Sequence[str], prompt: str
) -> Tensor:
    """Return the vector of each name's first token in a prompt, or of the prompt, float32 [K, D].

    The vector of the prompt is returned if the model encodes whole texts. Raises CannotDo for a
    name without a token that has a vector.
    """
    before, place, _ = prompt.partition("{}")
    if not place:
        raise ValueError(f"prompt '{prompt}' has no {{}} for the class's name")
    texts = value_column([prompt.replace("{}", name) for name in names], "text")
    if encodes_whole_texts(words):
        return engine.features(words.encode_texts, texts)
    assert isinstance(words, TokenEncoder)
    encode_tokens = engine.checked(words.encode_tokens)

    def first_tokens(batch: Sequence[str], batch_names: Sequence[str]) -> list[Tensor]:
        encoded = encode_tokens(batch)
        return [
            tokens.vectors[_first(tokens.spans, len(before), name)].float().cpu()
            for name, tokens in zip(batch_names, encoded, strict=True)
        ]

    return torch.stack(engine.map(first_tokens, texts, value_column(names, "text")))


def encodes_whole_texts(model: TokenEncoder | TextEncoder) -> TypeGuard[TextEncoder]:
    """Return whether a model's vectors of whole texts are used here, not its token vectors.

    A model that compares texts with images, as CLIP does, is trained on whole texts.
    """
    return isinstance(model, DualEncoder) or not isinstance(model, TokenEncoder)


def _first(spans: Sequence[tuple[int, int]], start: int, name: str) -> int:
    """Return the number of the first token, by spans, of a name that begins at `start`."""
    inside = tokens_at(spans, start, start + len(name))
    if not inside:
        raise CannotDo(f"the word encoder has no vector for the class '{name}'")
    return inside[0]
