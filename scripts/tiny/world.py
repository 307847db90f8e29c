"""The training data of the small models: images and captions of `scenes`, decoded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import Regions
from vlbench.data.records import Data
from vlbench.data.scenes import objects, scenes

# The seed of the drawings, not of the training: the tasks use the same drawings.
WORLD_SEED = 0


class Examples(NamedTuple):
    """Images uint8 [N, 3, 64, 64], the category of the first thing in each, captions, proposals."""

    images: Tensor
    labels: Tensor
    captions: list[list[str]]
    regions: list[Regions]

    def __add__(self, other: object) -> Examples:
        """Return these examples and then the others."""
        assert isinstance(other, Examples)
        images = torch.cat([self.images, other.images])
        labels = torch.cat([self.labels, other.labels])
        captions, regions = self.captions + other.captions, self.regions + other.regions
        return Examples(images, labels, captions, regions)


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
    images, labels, captions, regions = world.objects
    kept = Examples(
        images[rows],
        places[labels[rows]],
        [captions[i] for i in rows.tolist()],
        [regions[i] for i in rows.tolist()],
    )
    return World(kept, world.scenes, list(names))


def _examples(data: Data, split: str) -> Examples:
    rows = data.splits[split]
    images = np.stack([np.asarray(image) for image in rows["image"]])
    labels = [data.classes.index(categories[0]) for categories in rows["categories"]]
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    captions, regions = [list(five) for five in rows["captions"]], list(rows["regions"])
    return Examples(pixels, torch.tensor(labels), captions, regions)
