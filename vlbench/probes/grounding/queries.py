"""Queries of each image: which word of which caption should look at which gold boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vlbench.data.records import Split
from vlbench.data.words import word_spans
from vlbench.errors import TooFewRows, counted


class Query(NamedTuple):
    """The word at characters start..stop of a caption should look at target number `target`.

    Queries of one group have scores of their own.
    """

    group: int
    start: int
    stop: int
    target: int


# The queries of one image: `texts`, `queries` (one list per text) and `targets` (lists of xyxy
# boxes), as plain values.
ImageQueries = Mapping[str, Any]


class WordTarget(NamedTuple):
    """A word of a caption, by its number, and the numbers of the gold boxes it should look at."""

    group: int
    word: int
    boxes: tuple[int, ...]


def first_images(split: Split, images: int | None) -> Split:
    """Return the first images of a split, all for None. Raises TooFewRows below two."""
    rows = split.select(range(len(split) if images is None else min(len(split), images)))
    if len(rows) < 2:
        raise TooFewRows(f"{counted(len(rows), 'image')}; two halves need two")
    return rows


def image_queries(row: Split, i: int, words: Sequence[Sequence[WordTarget]]) -> dict[str, Any]:
    """Return the queries of image i, given the words of each of its captions."""
    targets = list(dict.fromkeys(one.boxes for caption in words for one in caption))
    number = {boxes: k for k, boxes in enumerate(targets)}
    gold = row["boxes"][i].tolist()
    texts = list(row["captions"][i])
    spans = [word_spans(text, split) for text, split in zip(texts, row["words"][i], strict=True)]
    return {
        "texts": texts,
        "targets": [[gold[box] for box in boxes] for boxes in targets],
        "queries": [
            [Query(one.group, *spans[j][one.word], number[one.boxes]) for one in caption]
            for j, caption in enumerate(words)
        ],
    }
