"""Texts as tokens: the batch that a model reads, the characters of each token, and counts."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vlbench.capabilities import TokenVectors
from vlbench.errors import CannotDo

# A token's characters, and each token's in a text; None for a special token and for padding.
Span = tuple[int, int] | None
Spans = list[Span]

# An HTML entity, white space, or the text between them: each is cleaned separately.
PIECE = re.compile(r"&(?:amp;)*#?\w+;|\s+|[^\s&]+|&")

# Number of characters compared in texts whose pieces cannot be cleaned separately.
MOST_COMPARED = 500


# The limit of a model that has no limit.
UNLIMITED = 2**20


def position_limit(model: nn.Module, config: Any) -> int:
    """Return the most tokens that a text may have for a model of transformers, or UNLIMITED.

    RoBERTa and its relatives count positions from their padding token's index on, so fewer remain
    than the configuration states.
    """
    limit: int = getattr(config, "max_position_embeddings", UNLIMITED)
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            first: int = padding + 1
            return len(module.weight) - first
    return limit if limit > 0 else UNLIMITED  # XLNet has -1


class TextReader:
    """A tokenizer of transformers with a limit: longer texts are cut to `limit` tokens.

    It pads on the right, whatever the tokenizer's file states. If the tokenizer's limit is lower
    than `limit`, it applies. With `pad_to_limit` every text is padded to the limit, for a model
    that was trained to attend to padding.
    """

    def __init__(
        self, tokenizer: Any, limit: int, device: torch.device, *, pad_to_limit: bool = False
    ) -> None:
        # Dual encoders take a text's vector from its first token and count positions from there.
        tokenizer.padding_side = "right"
        self.tokenizer = tokenizer
        self.limit: int = min(tokenizer.model_max_length, limit)
        self._device = device
        self._options: dict[str, Any] = (
            {"padding": "max_length"}
            if pad_to_limit
            else {"padding": True, "return_attention_mask": True}
        )
        # A model cannot read a text of zero tokens; some tokenizers add no special tokens.
        needs_end = not pad_to_limit and not tokenizer("").input_ids
        self._empty: str = (tokenizer.eos_token or "") if needs_end else ""

    def tokens(self, texts: Sequence[str], **options: Any) -> Any:
        """Return a model's inputs by keyword: `input_ids` int64 [N, T], and any others."""
        return self.tokenizer(
            [text or self._empty for text in texts],
            truncation=True,
            max_length=self.limit,
            return_tensors="pt",
            **self._options,
            **options,
        ).to(self._device)

    def read(self, texts: Sequence[str]) -> tuple[Any, list[Spans]]:
        """Return the tokens of N texts, and for each text the spans of its T tokens.

        Raises CannotDo for a tokenizer that gives no spans.
        """
        if not self.tokenizer.is_fast:
            raise CannotDo("this model has no fast tokenizer, so its tokens have no spans")
        batch = self.tokens(texts, return_offsets_mapping=True)
        offsets = batch.pop("offset_mapping").tolist()
        spans = [
            [token_span(text, *ends) for ends in row]
            for text, row in zip(texts, offsets, strict=True)
        ]
        return batch, spans

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, with special tokens, before the cut."""
        return [len(ids) for ids in self.tokenizer(list(texts), verbose=False).input_ids]


class CleanedText(NamedTuple):
    """A text as a tokenizer cleans it; for each of its characters, the span in the given text."""

    text: str
    characters: list[tuple[int, int]]

    def given(self, span: Span) -> Span:
        """Return a span of the clean text as a span of the given text."""
        if span is None or span[1] > len(self.characters):
            return None
        return self.characters[span[0]][0], self.characters[span[1] - 1][1]


def clean_text(text: str, clean: Callable[[str], str]) -> CleanedText:
    """Return a text cleaned by a function that joins words by one blank, with its spans.

    A character that replaces several, such as an HTML entity, has the span of all of them. If
    pieces cannot be cleaned separately, only the first characters of a long text have a span.
    """
    whole, made, places = clean(text), "", list[tuple[int, int]]()
    for piece in PIECE.finditer(text):
        source, start = piece.group(), piece.start()
        if html.unescape(source).isspace():
            new = "" if not made or made.endswith(" ") else " "
        else:
            new = clean(source)
        made += new
        is_one = source.isspace() or (source[0] == "&" and len(source) > 1)
        if is_one:
            spans = [(0, len(source))] * len(new)
        elif len(new) == len(source):
            spans = [(i, i + 1) for i in range(len(source))]
        else:
            spans = _align(source, new)
        places += [(start + low, start + high) for low, high in spans]
    if made.rstrip(" ") == whole:
        return CleanedText(whole, places[: len(whole)])
    return CleanedText(whole, _align(text[:MOST_COMPARED], whole[:MOST_COMPARED]))


def _align(source: str, made: str) -> list[tuple[int, int]]:
    """Return, for each character of a cleaned text, its span in the given text."""
    lower = source.lower()
    before = lower if len(lower) == len(source) else source
    places: list[tuple[int, int]] = []
    for _, low, high, start, end in SequenceMatcher(None, before, made, False).get_opcodes():
        count = end - start
        same = count == high - low
        # An added character has the span of the character before it.
        whole = (low, high) if high > low else (max(low - 1, 0), max(low, 1))
        places += [(low + i, low + i + 1) if same else whole for i in range(count)]
    return places


def token_span(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return a token's span without surrounding white space; None for a special token."""
    if not start < end <= len(text):
        return None
    piece = text[start:end]
    left, right = len(piece) - len(piece.lstrip()), len(piece) - len(piece.rstrip())
    return (start + left, end - right) if piece.strip() else (start, end)


def token_vectors(states: Tensor, spans: Sequence[Spans]) -> list[TokenVectors]:
    """Return the hidden states [N, T, D] of the tokens that have a span, one entry per text."""
    tokens = []
    for row, vectors in zip(spans, states, strict=True):
        kept = [i for i, span in enumerate(row) if span]
        tokens.append(TokenVectors([span for span in row if span], vectors[kept]))
    return tokens


def text_vectors(states: Tensor, spans: Sequence[Spans], attended: Tensor) -> Tensor:
    """Return the mean of the hidden states [N, T, D] over each text's non-special tokens, [N, D].

    For an empty text it is the mean over its special tokens, which are `attended` (bool [N, T]).
    """
    has_span = torch.tensor([[bool(span) for span in row] for row in spans], device=states.device)
    counted = torch.where(has_span.any(1, keepdim=True), has_span, attended).float()
    return (states * counted[..., None]).sum(1) / counted.sum(1, keepdim=True)
