"""Augmented train images of the transfer probe. arXiv:2104.08313, section 3.3.

Resize(size + 20), RandomResizedCrop(size), both bicubic as in the code, and RandomHorizontalFlip.
Departure from the code: every draw is seeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Column
from vlbench.digests import digest
from vlbench.engine import Engine

# Pixels that the shorter side is resized to beyond the size of the crop.
MARGIN = 20

# How both are interpolated; torchvision's own default is bilinear.
INTERPOLATION = "bicubic"


def augmented_features(
    model: ImageEncoder, images: Column, engine: Engine, *, epochs: int, seed: int
) -> Iterator[Tensor]:
    """Yield float32 [N, D] for each epoch, extracted anew from augmented images."""
    height, width = model.preprocess(images[0]).shape[-2:]
    for epoch in range(epochs):
        yield engine.features(
            model.encode_images, augmented(images, (height, width), seed=seed, epoch=epoch)
        )


def augmented(images: Column, size: tuple[int, int], *, seed: int, epoch: int) -> Column:
    """Return a column of the images of one epoch, all augmented to one size (H, W).

    The augmentation of an image depends on the seed, the epoch and its row, not on earlier reads.
    """
    # The engine knows a column by its key alone, so the library's version belongs in it.
    how = [MARGIN, INTERPOLATION, version("torchvision")]
    key = digest(["augmented", images.key, size, seed, epoch, *how])
    return Column(key, images.kind, AugmentedImages(images.stored, size, seed, epoch), images.rows)


@dataclass(frozen=True, eq=False)
class AugmentedImages(Sequence[Any]):
    """Images of `source`, augmented anew each time they are read."""

    source: Sequence[Image]
    size: tuple[int, int]
    seed: int
    epoch: int

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.source)

    def __getitem__(self, row: Any) -> Any:
        """Return the augmented image of one row."""
        from torchvision.transforms import v2  # noqa: PLC0415 - slow to import, for one option

        how = v2.InterpolationMode(INTERPOLATION)
        change = v2.Compose(
            [
                v2.Resize(min(self.size) + MARGIN, how),
                v2.RandomResizedCrop(self.size, interpolation=how),
                v2.RandomHorizontalFlip(),
            ]
        )
        state = np.random.SeedSequence([self.seed, self.epoch, row]).generate_state(1)
        # The library draws from the global generator, which is left as it was.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(state[0]))
            return change(self.source[row])
