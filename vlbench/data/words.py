"""Where the words of a text stand in it."""

from __future__ import annotations

from collections.abc import Sequence

from vlbench.errors import DataError


def word_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the characters of each word. Raises DataError where a text lacks one."""
    spans, start = [], 0
    for word in words:
        place = text.find(word, start)
        if place < 0:
            raise DataError(f"the caption '{text}' has no word '{word}' after character {start}")
        start = place + len(word)
        spans.append((place, start))
    return spans


def tokens_at(spans: Sequence[tuple[int, int]], start: int, stop: int) -> list[int]:
    """Return the tokens at `spans` that overlap characters start..stop (stop excluded)."""
    return [t for t, (left, right) in enumerate(spans) if left < stop and start < right]


def last_token(spans: Sequence[tuple[int, int]], start: int, stop: int) -> int | None:
    """Return the last token of the word at these characters; None where it has none."""
    return next(reversed(tokens_at(spans, start, stop)), None)
