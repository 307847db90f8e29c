"""Objects that an image shows and its caption names: a region vector and a word vector of each.

An object of an image is a category that its caption names (the column `named`, one word of each
category) and that has a region. Its region is the surest one with that label where regions are
detected, and the largest gold box of that category where a model encodes gold boxes. Its word
vector is the mean over the tokens that overlap the naming words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import (
    Detector,
    Picture,
    RegionEncoder,
    Regions,
    TokenEncoder,
    TokenVectors,
)
from vlbench.data.annotations import Named
from vlbench.data.records import Column, Split
from vlbench.data.words import tokens_at
from vlbench.digests import source_digest
from vlbench.engine import Engine
from vlbench.errors import DataError

# What may be put into `boxes`: where a region encoder looks.
BOXES = ("gold", "detected")


class Sides(NamedTuple):
    """Where vectors come from: words, and regions (None: those of the data).

    `boxes` are the gold ones or the data's own detected ones, for a model that encodes boxes;
    detected regions less sure than `confidence` do not count.
    """

    words: TokenEncoder
    regions: Detector | RegionEncoder | None
    boxes: str = "gold"
    confidence: float = 0.0

    @property
    def note(self) -> str:
        """Return what a row says of the regions."""
        surest = f"the surest with a category's label, from confidence {self.confidence:g}"
        if self.regions is None:
            return f"regions: those of the data, {surest}"
        if isinstance(self.regions, Detector):
            return f"regions: those that the model detects, {surest}"
        if self.boxes == "gold":
            return "regions: the largest gold box of a category, encoded by the model"
        return f"regions: boxes of the data, {surest}, encoded by the model"


class NamedObjects(NamedTuple):
    """The objects of one image: names, vectors [k, D] of regions, vectors of words.

    A word that the model has no vector for has None.
    """

    named: list[Named]
    regions: Tensor
    words: list[Tensor | None]


def find_objects(sides: Sides, split: Split, engine: Engine) -> list[NamedObjects]:
    """Return the objects of each image of a split.

    Raises ValueError for unknown `boxes`, DataError where regions lack what is asked of them.
    """
    if sides.boxes not in BOXES:
        raise ValueError(f"boxes '{sides.boxes}'; there are {', '.join(BOXES)}")
    seen = region_vectors(sides, split, engine)
    said = word_vectors(sides.words, split["caption"], split["named"], engine)
    rows = zip(split["named"], seen, said, strict=True)
    return [_objects(named, *found, vectors) for named, found, vectors in rows]


def region_vectors(sides: Sides, split: Split, engine: Engine) -> list[tuple[list[str], Tensor]]:
    """Return the named categories of each image that have a region, and [K, D] of those."""
    if sides.regions is None or isinstance(sides.regions, Detector):
        return _detected(sides.regions, sides.confidence, split, engine)
    return _encoded(sides.regions, sides, split, engine)


def word_vectors(
    words: TokenEncoder, texts: Column, named: Column, engine: Engine
) -> list[list[Tensor | None]]:
    """Return the vector [W] of each name in each text, or None where it has none."""

    def means(texts: Sequence[str], named: Sequence[Sequence[Named]]) -> list[Any]:
        encoded = words.encode_tokens(texts)
        pairs = zip(encoded, named, strict=True)
        return [[mean_over(found, n.start, n.end) for n in names] for found, names in pairs]

    key = {"what": "vectors of names", "model": words, "code": source_digest(tokens_at)}
    return engine.map(means, texts, named, key=key)


def mean_over(found: TokenVectors, start: int, end: int) -> Tensor | None:
    """Return the mean vector, float32 [W], of the tokens that overlap characters start..end."""
    rows = tokens_at(found.spans, start, end)
    return found.vectors[rows].float().mean(0).cpu() if rows else None


def surest(regions: Regions | None, wanted: Sequence[str], confidence: float) -> dict[str, int]:
    """Return the number of the surest region of each wanted label that is there."""
    if regions is None or regions.labels is None:
        raise DataError("a picture has no labelled regions; name a detector as companion")
    scores = torch.ones(len(regions.boxes)) if regions.scores is None else regions.scores
    best: dict[str, int] = {}
    for i in scores.argsort(descending=True, stable=True).tolist():
        if regions.labels[i] in wanted and float(scores[i]) >= confidence:
            best.setdefault(regions.labels[i], i)
    return best


def largest(boxes: Tensor, categories: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """Return the number of the largest of [n, 4] boxes of each wanted category that is there."""
    best: dict[str, int] = {}
    for i in (boxes[:, 2:] - boxes[:, :2]).prod(1).argsort(descending=True, stable=True).tolist():
        if categories[i] in wanted:
            best.setdefault(categories[i], i)
    return best


def _objects(
    named: Sequence[Named], categories: list[str], regions: Tensor, words: list[Tensor | None]
) -> NamedObjects:
    kept = [i for i, name in enumerate(named) if name.category in categories]
    order = [categories.index(named[i].category) for i in kept]
    return NamedObjects([named[i] for i in kept], regions[order], [words[i] for i in kept])


def _categories(named: Sequence[Named]) -> list[str]:
    return [name.category for name in named]


def _detected(
    detector: Detector | None, confidence: float, split: Split, engine: Engine
) -> list[tuple[list[str], Tensor]]:
    """Return categories and vectors of the surest regions; without a detector, of the data's."""

    def best(pictures: Sequence[Picture], named: Sequence[Sequence[Named]]) -> list[Any]:
        own = [picture.regions for picture in pictures]
        regions = detector.detect(pictures) if detector else own
        pairs = zip(regions, named, strict=True)
        return [_vectors(r, surest(r, _categories(names), confidence)) for r, names in pairs]

    key = {"what": "surest region of a category", "confidence": confidence, "model": detector}
    return engine.map(best, split["picture"], split["named"], key=key)


def _vectors(regions: Regions | None, best: Mapping[str, int]) -> tuple[list[str], Tensor]:
    if regions is None or regions.vectors is None:
        raise DataError("a picture's regions have no vectors; name a region encoder as companion")
    return list(best), regions.vectors[list(best.values())].float().cpu()


def _encoded(
    encoder: RegionEncoder, sides: Sides, split: Split, engine: Engine
) -> list[tuple[list[str], Tensor]]:
    """Return categories and vectors of the boxes that a region encoder is given."""

    def encode(pictures: Sequence[Picture], *truth: Sequence[Any]) -> list[Any]:
        rows = zip(pictures, *truth, strict=True)
        return _encode(encoder, pictures, [_chosen(sides, *row) for row in rows])

    columns = [split[name] for name in ("picture", "named", "boxes", "categories")]
    key = {"what": "chosen box of a category", "model": encoder}
    place = {"boxes": sides.boxes, "confidence": sides.confidence}
    return engine.map(encode, *columns, key=key | place)


def _chosen(
    sides: Sides,
    picture: Picture,
    named: Sequence[Named],
    boxes: Tensor,
    categories: Sequence[str],
) -> tuple[list[str], Tensor]:
    """Return the categories of one image that a region encoder is asked for, and their boxes."""
    wanted = _categories(named)
    if sides.boxes == "gold":
        best = largest(boxes, categories, wanted)
    else:
        best = surest(picture.regions, wanted, sides.confidence)
        assert picture.regions
        boxes = picture.regions.boxes
    return list(best), boxes[list(best.values())]


def _encode(
    encoder: RegionEncoder, pictures: Sequence[Picture], chosen: Sequence[tuple[list[str], Tensor]]
) -> list[tuple[list[str], Tensor]]:
    """Return categories and vectors of each picture; the model sees only those with a box."""
    asked = [i for i, (categories, _) in enumerate(chosen) if categories]
    found = [(categories, torch.empty(0, 0)) for categories, _ in chosen]
    if asked:
        boxes = [chosen[i][1] for i in asked]
        encoded = encoder.encode_regions([pictures[i] for i in asked], boxes)
        for i, vectors in zip(asked, encoded, strict=True):
            found[i] = (chosen[i][0], vectors.float().cpu())
    return found
