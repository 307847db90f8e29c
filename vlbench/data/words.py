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


def last_token(spans: Sequence[tuple[int, int]], start: int, stop: int) -> int | None:
    """Return the last token of the word at these characters; None where it has none."""
    held = (t for t in reversed(range(len(spans))) if spans[t][0] < stop and start < spans[t][1])
    return next(held, None)
