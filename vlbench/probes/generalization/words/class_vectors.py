"""Where a language model puts the names of classes."""

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

    The prompt, for a model that is asked for whole texts. Raises CannotDo for a name without a
    token that has a vector.
    """
    before, hole, _ = prompt.partition("{}")
    if not hole:
        raise ValueError(f"prompt '{prompt}' has no {{}} for the class's name")
    texts = value_column([prompt.replace("{}", name) for name in names], "text")
    if is_asked_whole(words):
        return engine.features(words.encode_texts, texts)
    assert isinstance(words, TokenEncoder)

    def first_tokens(batch: Sequence[str], of: Sequence[str]) -> list[Tensor]:
        encoded = words.encode_tokens(batch)
        return [
            tokens.vectors[_first(tokens.spans, len(before), name)].float().cpu()
            for name, tokens in zip(of, encoded, strict=True)
        ]

    return torch.stack(engine.map(first_tokens, texts, value_column(names, "text")))


def is_asked_whole(model: TokenEncoder | TextEncoder) -> TypeGuard[TextEncoder]:
    """Return whether a model is asked for whole texts, and not for the vectors of their tokens.

    One that compares texts with images, as CLIP does, has its meaning in the whole text.
    """
    return isinstance(model, DualEncoder) or not isinstance(model, TokenEncoder)


def _first(spans: Sequence[tuple[int, int]], start: int, name: str) -> int:
    """Return the first of the tokens at `spans` that a name has which begins at `start`."""
    inside = tokens_at(spans, start, start + len(name))
    if not inside:
        raise CannotDo(f"the word encoder has no vector for the class '{name}'")
    return inside[0]
