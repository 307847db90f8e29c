"""The training data of the small models: images and captions of `scenes`, decoded once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import Regions
from vlbench.data.coco_files import Phrase
from vlbench.data.records import Data, Split
from vlbench.data.scenes import objects, scenes
from vlbench.data.scenes.rows import Row, row, sizes
from vlbench.data.scenes.world import SIDE

# The seed of the drawings, not of the training: the tasks use the same drawings.
WORLD_SEED = 0

# The seed of a world that no task uses; so are those that follow it.
OTHER_SEED = 2002


class Facts(NamedTuple):
    """What is known of an image and its captions.

    `words` and `phrases` are those of each caption. `things` has the noun, category, colour, size
    and texture of each thing; `centres` the centre of its box, (x, y) as fractions of the image.
    """

    words: list[list[str]]
    phrases: list[list[Phrase]]
    things: list[frozenset[str]]
    centres: list[tuple[float, float]]
    background: str


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

    def __add__(self, other: object) -> Examples:
        """Return these examples and then the others."""
        assert isinstance(other, Examples)
        images = torch.cat([self.images, other.images])
        labels = torch.cat([self.labels, other.labels])
        lists = (mine + theirs for mine, theirs in zip(self[2:], other[2:], strict=True))
        return Examples(images, labels, *lists)


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


def of_categories(world: World, names: Sequence[str]) -> World:
    """Return a world whose objects are of these categories alone; their labels count the names."""
    places = torch.full((len(world.classes),), -1)
    places[[world.classes.index(name) for name in names]] = torch.arange(len(names))
    rows = (places[world.objects.labels] >= 0).nonzero().flatten()
    images, labels, *lists = world.objects
    lists = [[values[i] for i in rows.tolist()] for values in lists]
    kept = Examples(images[rows], places[labels[rows]], *lists)
    return World(kept, world.scenes, list(names))


def other_questions(count: int) -> list[list[str]]:
    """Return the five questions of each of so many images, which are in no split of any task."""
    return [one["questions"] for one in other_rows(range(count))]


def other_rows(numbers: Iterable[int]) -> Iterator[Row]:
    """Yield the rows of these scenes of other seeds, which are in no split of any task."""
    whole = sum(sizes("scenes").values())
    for i in numbers:
        yield row("scenes", OTHER_SEED + i // whole, i % whole)[0]


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
    known = zip(rows["words"], rows["phrases"], things, centres, rows["background"], strict=True)
    return [Facts(*one) for one in known]
