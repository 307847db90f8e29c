"""The training data of the small models: images and captions of `scenes`, decoded once."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import Regions
from vlbench.data.coco_files import Phrase
from vlbench.data.records import Data, Split
from vlbench.data.scenes import objects, scenes
from vlbench.data.scenes.proposals import overlap
from vlbench.data.scenes.world import CATEGORIES, COLOURS, NOUNS, SIDE, SIZES, TEXTURES

# The seed of the drawings, not of the training: the tasks use the same drawings.
WORLD_SEED = 0

# The seed of a world that no task uses; so are those that follow it.
OTHER_SEED = 2002


# What a proposal may show, by kind; the first of each is nothing.
NAMED = tuple(("", *names) for names in (NOUNS, CATEGORIES, COLOURS, SIZES, TEXTURES))

# The share of a thing and of its proposal, together, that both must cover.
COVERED = 0.5


class Facts(NamedTuple):
    """What is known of an image and its captions.

    `words` and `phrases` are those of each caption. `things` has the noun, category, colour, size
    and texture of each thing; `centres` the centre of its box, (x, y) as fractions of the image;
    `names` has for each proposal the place of what it shows in each of NAMED, 0 for nothing.
    """

    words: list[list[str]]
    phrases: list[list[Phrase]]
    things: list[frozenset[str]]
    centres: list[tuple[float, float]]
    background: str
    names: list[list[int]]


class Examples(NamedTuple):
    """Images uint8 [N, 3, 64, 64], the category of the first thing in each, and what goes with it.

    That is captions, proposals, facts and questions, one entry per image.
    """

    images: Tensor
    labels: Tensor
    captions: list[list[str]]
    regions: list[Regions]
    facts: list[Facts]
    questions: list[list[str]]


class World(NamedTuple):
    """One split of both configurations."""

    objects: Examples
    scenes: Examples
    classes: list[str]


def read(split: str, limit: int | None = None) -> World:
    """Return a split with at most `limit` rows per configuration, stratified by category."""
    both = [objects(seed=WORLD_SEED), scenes(seed=WORLD_SEED)]
    parts = [part if limit is None else part.limited(limit) for part in both]
    return World(*(_examples(part, split) for part in parts), list(both[0].classes))


def with_others(world: World, count: int) -> World:
    """Return a world whose scenes are also those of so many other seeds, which no task uses."""
    worlds = [scenes(seed=OTHER_SEED + i) for i in range(count)]
    more = [_examples(data, split) for data in worlds for split in data.splits]
    return world._replace(scenes=_concat([world.scenes, *more]))


def both(world: World) -> Examples:
    """Return the examples of both configurations."""
    return _concat(world[:2])


def _concat(parts: Sequence[Examples]) -> Examples:
    images, labels, *lists = zip(*parts, strict=True)
    joined = ([*chain.from_iterable(several)] for several in lists)
    return Examples(torch.cat(images), torch.cat(labels), *joined)


def other_questions() -> list[list[str]]:
    """Return the five questions of each train image of another seed, in no split of any task."""
    return [list(five) for five in scenes(seed=OTHER_SEED).splits["train"]["questions"]]


def of_categories(world: World, names: Sequence[str]) -> World:
    """Return a world whose things are all of these categories; labels count the names."""
    others = set(CATEGORIES) - set(names)
    places = torch.full((len(CATEGORIES),), -1)
    places[[CATEGORIES.index(name) for name in names]] = torch.arange(len(names))
    kept = (_select(part, others, there=False) for part in world[:2])
    return World(*(part._replace(labels=places[part.labels]) for part in kept), list(names))


def holding(world: World, names: Sequence[str]) -> World:
    """Return a world whose images each hold a thing of these categories."""
    return World(*(_select(part, set(names), there=True) for part in world[:2]), world.classes)


def _select(examples: Examples, names: AbstractSet[str], *, there: bool) -> Examples:
    """Return the examples with a thing of these categories, or without."""
    rows = [
        i
        for i, facts in enumerate(examples.facts)
        if any(map(names.__and__, facts.things)) == there
    ]
    lists = ([values[i] for i in rows] for values in examples[2:])
    return Examples(examples.images[rows], examples.labels[rows], *lists)


def _examples(data: Data, split: str) -> Examples:
    rows = data.splits[split]
    images = np.stack([np.asarray(image) for image in rows["image"]])
    labels = [data.classes.index(categories[0]) for categories in rows["categories"]]
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    captions, questions = (
        [list(five) for five in rows[name]] for name in ("captions", "questions")
    )
    regions = list(rows["regions"])
    return Examples(pixels, torch.tensor(labels), captions, regions, _facts(rows), questions)


def _facts(rows: Split) -> list[Facts]:
    described = [rows[name] for name in ("nouns", "categories", "colours", "sizes", "textures")]
    things = [
        [frozenset(one) for one in zip(*image, strict=True)]
        for image in zip(*described, strict=True)
    ]
    centres = [
        [((x1 + x2) / 2 / SIDE, (y1 + y2) / 2 / SIDE) for x1, y1, x2, y2 in boxes.tolist()]
        for boxes in rows["boxes"]
    ]
    names = [
        [_names(things_, boxes.tolist(), box) for box in regions.boxes.tolist()]
        for things_, boxes, regions in zip(things, rows["boxes"], rows["regions"], strict=True)
    ]
    texts = [rows[name] for name in ("words", "phrases")]
    return [
        Facts(*one) for one in zip(*texts, things, centres, rows["background"], names, strict=True)
    ]


def _names(
    things: Sequence[frozenset[str]], boxes: Sequence[Sequence[float]], box: Sequence[float]
) -> list[int]:
    """Return the places in NAMED of the thing under a box."""
    shares = [overlap(box, gold) for gold in boxes]
    best = max(range(len(boxes)), key=shares.__getitem__)
    if shares[best] < COVERED:
        return [0] * len(NAMED)
    return [next(i for i, name in enumerate(kind) if name in things[best]) for kind in NAMED]
