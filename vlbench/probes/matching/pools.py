"""Pools of images and captions that are ranked against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.data.names import one_spelling
from vlbench.data.records import Split
from vlbench.errors import DataError, TooFewRows, counted
from vlbench.metrics.items import DIGITS, Examples
from vlbench.system.digests import digest


class Captions(NamedTuple):
    """The captions of N images, ordered by image, and the number per image, int64 [N].

    `texts` are the captions in the prompt, `captions` the original captions. `examples` identify
    the images.
    """

    texts: list[str]
    captions: list[str]
    sizes: Tensor
    examples: Examples

    @property
    def images(self) -> Tensor:
        """The image of each caption, int64 [M]."""
        return torch.arange(len(self.sizes)).repeat_interleave(self.sizes)

    def named(self, rows: Sequence[int]) -> Examples:
        """Return examples that identify some captions; the captions of an image are a cluster."""
        images = self.images.tolist()
        firsts = (self.sizes.cumsum(0) - self.sizes).tolist()
        names, digests = self.examples.ids, self.examples.digests
        pairs = [(row, images[row]) for row in rows]
        return Examples(
            [f"{names[image]}/{row - firsts[image]}" for row, image in pairs],
            [
                digest([digests[image], self.captions[row]]).removeprefix("sha256:")[:DIGITS]
                for row, image in pairs
            ],
            [names[image] for _, image in pairs],
            [digests[image] for _, image in pairs],
        )


def captions_of(split: Split, most: int | None, prompt: str) -> Captions:
    """Return the first `most` captions per image of a split, in a prompt.

    Captions that are equal but for outer blanks and their Unicode form are one text. Raises
    DataError for an image without captions.
    """
    images = split["image"] if "image" in split.columns else split["picture"]
    groups, examples = [list(group[:most]) for group in split["captions"]], images.examples()
    if [] in groups:
        raise DataError(f"image {examples.ids[groups.index([])]} has no caption; leave it out")
    sizes = torch.tensor([len(group) for group in groups])
    captions = [*chain(*groups)]
    texts = [prompt.replace("{}", caption) for caption in one_spelling(captions)]
    return Captions(texts, captions, sizes, examples)


class Pool(NamedTuple):
    """The rows of P images and of their M captions, ranked against each other, int64.

    The captions are ordered by image, `sizes` [P] per image.
    """

    images: Tensor
    captions: Tensor
    sizes: Tensor

    @property
    def right_captions(self) -> Tensor:
        """The places of each image's captions in the pool, [P, R], padded with -1."""
        firsts, places = self.sizes.cumsum(0) - self.sizes, torch.arange(int(self.sizes.max()))
        return torch.where(places < self.sizes[:, None], firsts[:, None] + places, -1)

    @property
    def right_images(self) -> Tensor:
        """The place of each caption's image in the pool, [M, 1]."""
        return torch.arange(len(self.images)).repeat_interleave(self.sizes)[:, None]


def draw_pools(sizes: Tensor, pool: int | None, seed: int) -> list[Pool]:
    """Return N images, each with `sizes` [N] captions, in random pools of `pool` images.

    Remaining images, too few for a pool, are left out. If `pool` is None, all images are a single
    pool, in their order. Raises TooFewRows.
    """
    count = len(sizes)
    if count < 2:
        raise TooFewRows(f"{counted(count, 'image')}; there is nothing to rank", 2)
    if count < (pool or 2):
        raise TooFewRows(f"{counted(count, 'image')}; a pool has {pool}", pool)
    order = torch.arange(count)
    if pool is not None:
        order = torch.from_numpy(np.random.default_rng(seed).permutation(count))
    firsts = sizes.cumsum(0) - sizes
    pools = []
    size = pool or count
    for images in torch.split(order[: count - count % size], size):
        counts = sizes[images]
        shift = firsts[images] - (counts.cumsum(0) - counts)
        captions = torch.arange(int(counts.sum())) + shift.repeat_interleave(counts)
        pools.append(Pool(images, captions, counts))
    return pools


def count_repeated(captions: Captions, pools: Sequence[Pool]) -> int:
    """Return the number of captions identical to a caption of another image in their pool."""
    images, count = captions.images.tolist(), 0
    for pool in pools:
        rows = pool.captions.tolist()
        # Each text counts once per image.
        owners = Counter(text for text, _ in {(captions.texts[i], images[i]) for i in rows})
        count += sum(owners[captions.texts[i]] > 1 for i in rows)
    return count
