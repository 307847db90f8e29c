"""Positions of words in a text, and of the tokens that overlap them."""

from __future__ import annotations

from collections.abc import Sequence

from vlbench.errors import DataError


def word_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the characters (start, stop) of each word. Raises DataError for a missing word."""
    spans, start = [], 0
    for word in words:
        place = text.find(word, start)
        if place < 0:
            raise DataError(f"the caption '{text}' has no word '{word}' after character {start}")
        start = place + len(word)
        spans.append((place, start))
    return spans


def tokens_at(spans: Sequence[tuple[int, int]], start: int, stop: int) -> list[int]:
    """Return the indices of the `spans` that overlap characters start..stop (stop excluded)."""
    return [t for t, (left, right) in enumerate(spans) if left < stop and start < right]


def last_token(spans: Sequence[tuple[int, int]], start: int, stop: int) -> int | None:
    """Return the index of the last span that overlaps start..stop; None if none does."""
    return next(reversed(tokens_at(spans, start, stop)), None)
