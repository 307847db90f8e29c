"""Where a language model puts the names of classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vlbench.capabilities import DualEncoder, TextEncoder, TokenEncoder
from vlbench.data.records import value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo


def class_vectors(
    engine: Engine, words: TokenEncoder | TextEncoder, names: Sequence[str], prompt: str
) -> Tensor:
    """Return the vector of each name's first token in a prompt, or of the prompt, float32 [K, D].

    The prompt, where the model gives no vectors of tokens, or compares whole texts with images, as
    CLIP does. Raises CannotDo for a name without a
    token that has a vector.
    """
    before, hole, _ = prompt.partition("{}")
    if not hole:
        raise ValueError(f"prompt '{prompt}' has no {{}} for the class's name")
    texts = value_column([prompt.replace("{}", name) for name in names], "text")
    if isinstance(words, DualEncoder) or not isinstance(words, TokenEncoder):
        return engine.features(words.encode_texts, texts)

    def first_tokens(batch: Sequence[str], of: Sequence[str]) -> list[Tensor]:
        encoded = words.encode_tokens(batch)
        return [
            tokens.vectors[_first(tokens.spans, len(before), name)].float().cpu()
            for name, tokens in zip(of, encoded, strict=True)
        ]

    return torch.stack(engine.map(first_tokens, texts, value_column(names, "text")))


def _first(spans: Sequence[tuple[int, int]], start: int, name: str) -> int:
    """Return the first of the tokens at `spans` that a name has which begins at `start`."""
    inside = [i for i, (left, right) in enumerate(spans) if right > start]
    if not inside or spans[inside[0]][0] >= start + len(name):
        raise CannotDo(f"the word encoder has no vector for the class '{name}'")
    return inside[0]
