"""The data sets `objects` and `scenes`: splits of a world that vlbench draws itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from vlbench.capabilities import Picture, Regions
from vlbench.data.annotations import Arc, Named, Phrase
from vlbench.data.images import decode_image
from vlbench.data.records import Column, Data, Split
from vlbench.data.scenes.rows import Row, row, sizes
from vlbench.data.scenes.storage import kept
from vlbench.data.scenes.world import CATEGORIES, NOUNS, REGION_KIND, SIDE, VERSION
from vlbench.data.tables import Table, made
from vlbench.planning.options import default_cache

LOGGER = logging.getLogger(__name__)

# How many images are drawn between two words about it.
NEWS = 500

PROPOSALS = ("proposal_boxes", "proposal_vectors", "proposal_scores", "proposal_labels")


def objects(*, seed: int = 0, fine: bool = False) -> Data:
    """Return 3,000 images of one thing; the label is its category of 12, or its noun of 40.

    `fine` asks for the nouns. The other columns are those of `scenes`.
    """
    table, name = _table("objects", seed), "noun" if fine else "label"
    values = table.values(name)
    label = Column(table.digests[name], "value", values, range(len(values)))
    return _data("objects", _columns(table) | {"label": label}, NOUNS if fine else CATEGORIES)


def scenes(*, seed: int = 0, regions: str | None = None) -> Data:
    """Return 6,000 images of 1 to 4 things.

    `regions` is what a task asks for: every picture has this world's own proposals, and no others,
    so it is scenes-proposals or nothing.

    `boxes` are gold, float32 [n, 4] xyxy pixels, tight around what is visible, from back to front,
    as are `categories`, `nouns`, `colours`, `sizes`, `textures`, `facings` and `angles` (degrees
    clockwise). `words`, `tags`, `arcs` and `phrases` have one list for each of the five `captions`;
    `caption` is the first, which names everything; `named` says where, one `Named` for each
    category. `answers` are those of the five `questions`.
    """
    if regions not in {None, REGION_KIND}:
        raise ValueError(f"scenes have regions of kind {REGION_KIND}, not {regions}")
    return _data("scenes", _columns(_table("scenes", seed)), CATEGORIES)


def _table(configuration: str, seed: int) -> Table:
    folder = default_cache() / "scenes" / f"{VERSION}-{seed}-{configuration}"
    return kept(folder, lambda: _drawn(configuration, seed))


def _drawn(configuration: str, seed: int) -> Iterator[tuple[Row, str]]:
    """Yield every row, and say now and then how many are left."""
    count, start = sum(sizes(configuration).values()), time.monotonic()
    for i in range(count):
        if i % NEWS == 0:
            left = f", {(time.monotonic() - start) / i * (count - i):.0f} s left" if i else ""
            LOGGER.info("drawing %s, once: %d of %d images%s", configuration, i, count, left)
        yield row(configuration, seed, i)


def _data(configuration: str, columns: Mapping[str, Column], classes: Sequence[str]) -> Data:
    whole, splits, start = Split(columns), {}, 0
    for name, size in sizes(configuration).items():
        splits[name] = whole.select(range(start, start + size))
        start += size
    return Data(splits=splits, classes=classes)


def _columns(table: Table) -> dict[str, Column]:
    """Return all columns but the label."""
    column = partial(made, table)
    as_they_are = (
        "background", "categories", "nouns", "colours", "sizes", "textures", "facings", "angles",
        "captions", "words", "tags", "questions", "answers",
    )  # fmt: skip
    return {
        "image": replace(column(["image"], _image, "image"), key=table.digests["image"]),
        "boxes": column(["boxes"], torch.tensor),
        "regions": column(PROPOSALS, _regions),
        "picture": column(["image", *PROPOSALS], _picture, "picture"),
        "caption": column(["captions"], _first, "text"),
        "question": column(["questions"], _first, "text"),
        "arcs": column(["arcs"], _arcs),
        "phrases": column(["phrases"], _phrases),
        "named": column(["words", "phrases", "categories", "nouns"], _named),
        **{name: column([name], _itself) for name in as_they_are},
    }


def _itself(value: Any) -> Any:
    return value


def _first(texts: Sequence[str]) -> str:
    return texts[0]


def _image(encoded: bytes) -> Any:
    return decode_image(encoded, "an image of scenes")


def _regions(boxes: Any, vectors: Any, scores: Any, labels: list[str]) -> Regions:
    numbers = [torch.tensor(values) for values in (boxes, vectors, scores)]
    return Regions(numbers[0], numbers[1], numbers[2], labels, (SIDE, SIDE))


def _picture(encoded: bytes, *proposals: Any) -> Picture:
    return Picture(_image(encoded), _regions(*proposals))


def _arcs(captions_: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Arc]]:
    return [[Arc(**arc) for arc in arcs] for arcs in captions_]


def _phrases(captions_: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Phrase]]:
    return [
        [Phrase(phrase["start"], phrase["stop"], tuple(phrase["boxes"])) for phrase in phrases]
        for phrases in captions_
    ]


def _named(
    words: Sequence[Sequence[str]],
    phrases: Sequence[Sequence[Mapping[str, Any]]],
    categories: Sequence[str],
    nouns: Sequence[str],
) -> list[Named]:
    """Return where the first caption names each category first; of `two pines`, at `pines`."""
    found: dict[str, Named] = {}
    for phrase in (p for p in phrases[0] if p["boxes"]):
        box, noun = phrase["boxes"][0], phrase["stop"] - 1
        start = len(" ".join([*words[0][:noun], ""]))
        name = Named(categories[box], nouns[box], start, start + len(words[0][noun]))
        found.setdefault(name.category, name)
    return list(found.values())
