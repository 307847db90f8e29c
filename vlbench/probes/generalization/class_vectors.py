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
    engine: Engine,
    words: TokenEncoder | TextEncoder,
    names: Sequence[str],
    prompt: str,
    *,
    tokens: str = "first",
    refusal: str = "the word encoder has no vector for the class",
) -> Tensor:
    """Return the vector of each name in a prompt, or of the prompt, float32 [K, D].

    The vector of the prompt is returned if the model encodes whole texts, otherwise the vector of
    the name's `first` token, or the `mean` over its tokens. Raises CannotDo, with the `refusal` and
    the name, for a name without a token that has a vector.
    """
    before, place, _ = prompt.partition("{}")
    if not place:
        raise ValueError(f"prompt '{prompt}' has no {{}} for the class's name")
    texts = value_column([prompt.replace("{}", name) for name in names], "text")
    if encodes_whole_texts(words):
        return engine.features(words.encode_texts, texts)
    assert isinstance(words, TokenEncoder)
    encode_tokens = engine.checked(words.encode_tokens)
    start, last = len(before), 1 if tokens == "first" else None

    def of_names(batch: Sequence[str], batch_names: Sequence[str]) -> list[Tensor]:
        vectors = []
        for name, encoded in zip(batch_names, encode_tokens(batch), strict=True):
            inside = tokens_at(encoded.spans, start, start + len(name))
            if not inside:
                raise CannotDo(f"{refusal} '{name}'")
            vectors.append(encoded.vectors[inside[:last]].mean(0).float().cpu())
        return vectors

    return torch.stack(engine.map(of_names, texts, value_column(names, "text")))


def encodes_whole_texts(model: TokenEncoder | TextEncoder) -> TypeGuard[TextEncoder]:
    """Return whether a model's vectors of whole texts are used here, not its token vectors.

    A model that compares texts with images, as CLIP does, is trained on whole texts.
    """
    return isinstance(model, DualEncoder) or not isinstance(model, TokenEncoder)
