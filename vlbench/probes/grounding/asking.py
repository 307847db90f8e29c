"""What is asked of each image: which word of which caption should look at which gold boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from vlbench.data.records import Split
from vlbench.data.words import word_spans
from vlbench.errors import TooFewRows
from vlbench.probes.grounding.attention import Query


class Wanted(NamedTuple):
    """A word of a caption, by its place, and the gold boxes of one image it should look at."""

    group: int
    word: int
    boxes: tuple[int, ...]


def first_images(split: Split, images: int | None) -> Split:
    """Return the first images of a split, all for None. Raises TooFewRows below two."""
    rows = split.select(range(len(split) if images is None else min(len(split), images)))
    if len(rows) < 2:
        raise TooFewRows(f"{len(rows)} images; two halves need two")
    return rows


def asked_of(row: Split, i: int, wanted: Sequence[Sequence[Wanted]]) -> dict[str, Any]:
    """Return what is asked of image i, `wanted` of each of its captions, as plain values."""
    targets = list(dict.fromkeys(one.boxes for caption in wanted for one in caption))
    number = {boxes: k for k, boxes in enumerate(targets)}
    gold = row["boxes"][i].tolist()
    texts = list(row["captions"][i])
    spans = [word_spans(text, words) for text, words in zip(texts, row["words"][i], strict=True)]
    return {
        "texts": texts,
        "targets": [[gold[box] for box in boxes] for boxes in targets],
        "queries": [
            [Query(one.group, *spans[j][one.word], number[one.boxes]) for one in caption]
            for j, caption in enumerate(wanted)
        ],
    }
