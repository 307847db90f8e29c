"""Reading texts into tokens: ids, spans and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vlbench.adapter_kit.hugging_face import Source, fast_tokenizer

# The span of each token of a text; None for a special one and for padding.
Spans = list[tuple[int, int] | None]


class TextReader:
    """A tokenizer, and the number of tokens that it cuts texts to."""

    def __init__(self, source: Source, limit: int) -> None:
        self.tokenizer = fast_tokenizer(source)
        self.limit: int = min(self.tokenizer.model_max_length, limit)

    def read(self, texts: Sequence[str], device: torch.device) -> tuple[Any, list[Spans]]:
        """Return a padded batch, as the model takes it, and the spans of each text."""
        batch = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.limit,
            return_attention_mask=True,
            return_offsets_mapping=True,
            return_tensors="pt",
        ).to(device)
        offsets = batch.pop("offset_mapping").tolist()
        spans = [
            [token_span(text, *ends) for ends in row]
            for text, row in zip(texts, offsets, strict=True)
        ]
        return batch, spans

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones included, before it is cut."""
        return [len(ids) for ids in self.tokenizer(list(texts), verbose=False).input_ids]


def token_span(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return where a token stands without the white space around it; None for a special token."""
    if not start < end <= len(text):
        return None
    piece = text[start:end]
    left, right = len(piece) - len(piece.lstrip()), len(piece) - len(piece.rstrip())
    return (start + left, end - right) if piece.strip() else (start, end)
