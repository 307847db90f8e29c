"""Region vectors from an image encoder: each box is cut out and encoded as an image."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.images import images_of
from vlbench.capabilities import ImageEncoder, Picture
from vlbench.errors import CannotDo


class Crops:
    """Encodes each box with the image encoder `encoder`, as an image of its own."""

    def __init__(
        self, *, device: torch.device, dtype: torch.dtype = torch.float32, encoder: ImageEncoder
    ) -> None:
        del dtype  # The encoder has a dtype of its own.
        if getattr(encoder, "ragged", False):
            raise CannotDo("the image encoder keeps each picture's size; crops need one size")
        self.encoder = encoder
        self._device = device

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return float32 [R_i, D] for the boxes of each picture.

        A box is widened to whole pixels and cut at the edge of the picture; at least one pixel is
        left.
        """
        pairs = zip(images_of(pictures), boxes, strict=True)
        return [self._encode(image, given) for image, given in pairs]

    def _encode(self, image: Image, boxes: Tensor) -> Tensor:
        # Without boxes, the whole picture is encoded to find the width of the vectors.
        crops = [_crop(image, box) for box in boxes.tolist()] or [image]
        pixels = torch.stack([self.encoder.preprocess(crop) for crop in crops])
        return self.encoder.encode_images(pixels.to(self._device))[: len(boxes)]


def _crop(image: Image, box: Sequence[float]) -> Image:
    left = min(max(floor(box[0]), 0), image.width - 1)
    top = min(max(floor(box[1]), 0), image.height - 1)
    right = min(max(ceil(box[2]), left + 1), image.width)
    bottom = min(max(ceil(box[3]), top + 1), image.height)
    return image.crop((left, top, right, bottom))
