"""Objects that an image shows and its caption names, with region and word vectors.

An object of an image is a category that its caption names (the column `named`, one word per
category) and that has a region. Its region is the most confident region with this label if regions
are detected, and the largest gold box of the category if a model encodes gold boxes. Its word
vector is the mean over the tokens of the caption that overlap the naming words; for a static
encoder it is the vector of the fine-grained class (see `word_forms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from vlbench.data.coco_files import Named
from vlbench.data.records import Column, Split, value_column
from vlbench.data.words import tokens_at
from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.metrics.ranking import TIED

TEMPLATE = "A photo of a {label}"

Vectors = dict[str, Tensor | None]

# A model's `encode_tokens`.
Encode = Callable[[Sequence[str]], list[TokenVectors]]

# Values of `source`: the boxes that a region encoder encodes.
SOURCES = ("gold", "detected")


class NameVectors(NamedTuple):
    """The vector [W] of each name, or None, alone and in the prompt; static or contextual."""

    alone: Vectors
    prompted: Vectors
    static: bool

    @property
    def note(self) -> str:
        """Return a row's note on the words."""
        if self.static:
            return "words: vectors of the class names, which are the same in any text"
        return "words: their vectors in the caption"


def name_vectors(words: TokenEncoder, names: Sequence[str], engine: Engine) -> NameVectors:
    """Return the vectors of names outside of captions."""
    encode_tokens = engine.checked(words.encode_tokens)

    def encode(names: Sequence[str]) -> list[Any]:
        joined = [name.replace(" ", "_") for name in names]
        # A joined name is used if it is a single word of the encoder.
        are_single = [
            encoded.spans == [(0, len(text))]
            for encoded, text in zip(encode_tokens(joined), joined, strict=True)
        ]
        return [
            [*plain, *(other if is_one else plain)]
            for plain, other, is_one in zip(
                _of(encode_tokens, names), _of(encode_tokens, joined), are_single, strict=True
            )
        ]

    key = {"what": "names of classes", "model": words}
    rows = engine.map(encode, value_column(names, "text"), key=key) if names else []
    static = all(_same(row[0], row[1]) for row in rows)
    # Joined names: alone and over the whole prompt. Plain names: alone and in the prompt.
    chosen = [(row[3], row[5]) if static else (row[0], row[1]) for row in rows]
    alone, prompted = ({n: row[i] for n, row in zip(names, chosen, strict=True)} for i in range(2))
    return NameVectors(alone, prompted, static)


def _of(encode_tokens: Encode, names: Sequence[str]) -> list[list[Tensor | None]]:
    """Return three vectors per name: alone, in the prompt, and over the whole prompt.

    A vector is None if no token has one; the last also if the name has none in the prompt.
    """
    start = TEMPLATE.index("{label}")
    prompts = encode_tokens([TEMPLATE.format(label=name) for name in names])
    rows = []
    for alone, name, prompt in zip(encode_tokens(names), names, prompts, strict=True):
        inside = mean_over(prompt, start, start + len(name))
        whole = None if inside is None else mean_over(prompt, 0, start + len(name))
        rows.append([mean_over(alone, 0, len(name)), inside, whole])
    return rows


def caption_vectors(
    words: TokenEncoder, texts: Column, named: Column, engine: Engine
) -> list[list[Tensor | None]]:
    """Return the vector [W] of each name in each text, or None if it has no vector."""
    encode_tokens = engine.checked(words.encode_tokens)

    def means(texts: Sequence[str], named: Sequence[Sequence[Any]]) -> list[Any]:
        encoded = encode_tokens(texts)
        pairs = zip(encoded, named, strict=True)
        return [[mean_over(tokens, n.start, n.end) for n in names] for tokens, names in pairs]

    return engine.map(means, texts, named, key={"what": "vectors of names", "model": words})


def mean_over(encoded: TokenVectors, start: int, end: int) -> Tensor | None:
    """Return the mean vector, float32 [W], of the tokens that overlap characters start..end."""
    rows = tokens_at(encoded.spans, start, end)
    return encoded.vectors[rows].float().mean(0).cpu() if rows else None


def _same(first: Tensor | None, other: Tensor | None) -> bool:
    if first is None or other is None:
        return first is other
    return torch.allclose(first, other, TIED, TIED)


class Boxes(NamedTuple):
    """The boxes that are used: `source` is "gold" or "detected", for a model that encodes boxes.

    Detected regions of lower confidence are left out.
    """

    source: str = "gold"
    confidence: float = 0.0


ALL_BOXES = Boxes()


class ObjectEncoders(NamedTuple):
    """The encoders of words and of regions; None: the data have region vectors."""

    words: TokenEncoder
    regions: Detector | RegionEncoder | None
    boxes: Boxes = ALL_BOXES

    @property
    def note(self) -> str:
        """Return a row's note on the regions."""
        confidence = self.boxes.confidence
        detected = f"the most confident with a category's label, from confidence {confidence:g}"
        if self.regions is None:
            return f"regions of the data, {detected}"
        if isinstance(self.regions, Detector):
            return f"regions that the model detects, {detected}"
        if self.boxes.source == "gold":
            return "regions: the largest gold box of a category, encoded by the model"
        return f"regions: boxes of the data, {detected}, encoded by the model"


class NamedObjects(NamedTuple):
    """The objects of one image: its id and digest, names, region vectors [k, D], and word vectors.

    `forms` are the vectors of the word forms in the caption, which for a contextual encoder are
    `words`. A vector is None if the model has none for the word.
    """

    image: tuple[str, str]
    named: list[Named]
    regions: Tensor
    words: list[Tensor | None]
    forms: list[Tensor | None]


def find_objects(
    encoders: ObjectEncoders, split: Split, engine: Engine, names: NameVectors
) -> list[NamedObjects]:
    """Return the objects of each image of a split; `names` has the vectors of all classes.

    Raises ValueError for an unknown source of boxes, DataError for regions without labels or
    vectors.
    """
    if encoders.boxes.source not in SOURCES:
        raise ValueError(f"boxes '{encoders.boxes.source}'; there are {', '.join(SOURCES)}")
    regions = region_vectors(encoders, split, engine)
    forms = caption_vectors(encoders.words, split["caption"], split["named"], engine)
    images = split["image" if "image" in split.columns else "named"].examples()
    identities = zip(images.ids, images.digests, strict=True)
    rows = zip(identities, split["named"], regions, forms, strict=True)
    return [_objects(image, named, of_boxes, own, names) for image, named, of_boxes, own in rows]


def region_vectors(
    encoders: ObjectEncoders, split: Split, engine: Engine
) -> list[tuple[list[str], Tensor]]:
    """Return the named categories of each image that have a region, and their vectors [K, D]."""
    if encoders.regions is None or isinstance(encoders.regions, Detector):
        return _detect_objects(encoders.regions, encoders.boxes.confidence, split, engine)
    return _encode_boxes(encoders.regions, encoders.boxes, split, engine)


def most_confident(
    regions: Regions | None, labels: Sequence[str], confidence: float
) -> dict[str, int]:
    """Return the number of the most confident region of each wanted label with a region."""
    if regions is None or regions.labels is None:
        raise DataError("a picture has no labelled regions; name a detector as companion")
    scores = torch.ones(len(regions.boxes)) if regions.scores is None else regions.scores
    best: dict[str, int] = {}
    for i in scores.argsort(descending=True, stable=True).tolist():
        if regions.labels[i] in labels and float(scores[i]) >= confidence:
            best.setdefault(regions.labels[i], i)
    return best


def largest(boxes: Tensor, categories: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Return the number of the largest of [n, 4] boxes of each wanted category with a box."""
    best: dict[str, int] = {}
    for i in (boxes[:, 2:] - boxes[:, :2]).prod(1).argsort(descending=True, stable=True).tolist():
        if categories[i] in names:
            best.setdefault(categories[i], i)
    return best


def _objects(
    image: tuple[str, str],
    named: Sequence[Named],
    of_image: tuple[list[str], Tensor],
    forms: Sequence[Tensor | None],
    names: NameVectors,
) -> NamedObjects:
    categories, regions = of_image
    kept = [i for i, name in enumerate(named) if name.category in categories]
    order = [categories.index(named[i].category) for i in kept]
    vectors = [forms[i] for i in kept]
    words = [names.alone[named[i].word] for i in kept] if names.static else vectors
    return NamedObjects(image, [named[i] for i in kept], regions[order], words, vectors)


def _categories(named: Sequence[Named]) -> list[str]:
    return [name.category for name in named]


def _detect_objects(
    detector: Detector | None, confidence: float, split: Split, engine: Engine
) -> list[tuple[list[str], Tensor]]:
    """Return categories and vectors of the most confident regions, detected or of the data."""
    detect = engine.checked(detector.detect) if detector else None

    def best(pictures: Sequence[Picture], named: Sequence[Sequence[Named]]) -> list[Any]:
        of_data = [picture.regions for picture in pictures]
        regions = detect(pictures) if detect else of_data
        return [
            _vectors(one, most_confident(one, _categories(names), confidence))
            for one, names in zip(regions, named, strict=True)
        ]

    key = {"what": "most confident region", "confidence": confidence, "model": detector}
    return engine.map(best, split["picture"], split["named"], key=key)


def _vectors(regions: Regions | None, best: Mapping[str, int]) -> tuple[list[str], Tensor]:
    if regions is None or regions.vectors is None:
        raise DataError("a picture's regions have no vectors; name a region encoder as companion")
    return list(best), regions.vectors[list(best.values())].float().cpu()


def _encode_boxes(
    encoder: RegionEncoder, which: Boxes, split: Split, engine: Engine
) -> list[tuple[list[str], Tensor]]:
    """Return categories and vectors of the boxes that a region encoder encodes."""
    encode_regions = engine.checked(encoder.encode_regions)

    def encode(pictures: Sequence[Picture], *truth: Sequence[Any]) -> list[Any]:
        rows = zip(pictures, *truth, strict=True)
        return _encode(encode_regions, pictures, [_choose_boxes(which, *row) for row in rows])

    columns = [split[name] for name in ("picture", "named", "boxes", "categories")]
    key = {"what": "chosen box of a category", "model": encoder}
    return engine.map(encode, *columns, key=key | which._asdict())


def _choose_boxes(
    which: Boxes,
    picture: Picture,
    named: Sequence[Named],
    boxes: Tensor,
    categories: Sequence[str],
) -> tuple[list[str], Tensor]:
    """Return the categories of one image that have a box, and the box of each."""
    names = _categories(named)
    if which.source == "gold":
        best = largest(boxes, categories, names)
    else:
        best = most_confident(picture.regions, names, which.confidence)
        assert picture.regions
        boxes = picture.regions.boxes
    return list(best), boxes[list(best.values())]


def _encode(
    encode_regions: Callable[[Sequence[Picture], Sequence[Tensor]], list[Tensor]],
    pictures: Sequence[Picture],
    chosen: Sequence[tuple[list[str], Tensor]],
) -> list[tuple[list[str], Tensor]]:
    """Return categories and vectors of each picture; the model encodes only pictures with a box."""
    boxed = [i for i, (categories, _) in enumerate(chosen) if categories]
    vectors_of_each = [(categories, torch.empty(0, 0)) for categories, _ in chosen]
    if boxed:
        boxes = [chosen[i][1] for i in boxed]
        encoded = encode_regions([pictures[i] for i in boxed], boxes)
        for i, vectors in zip(boxed, encoded, strict=True):
            vectors_of_each[i] = (chosen[i][0], vectors.float().cpu())
    return vectors_of_each
