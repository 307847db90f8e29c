"""Region vectors of any image encoder: each box is cut out and encoded as an image."""

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
    """Encodes boxes as images of their own, by `encoder`, without what is around them."""

    def __init__(
        self, *, device: torch.device, dtype: torch.dtype = torch.float32, encoder: ImageEncoder
    ) -> None:
        del dtype  # The encoder has its own.
        if getattr(encoder, "ragged", False):
            raise CannotDo("the image encoder keeps each picture's size; crops need one for all")
        self.encoder = encoder
        self._device = device

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return the vector of each box, cut to whole pixels inside the picture, at least one."""
        pairs = zip(images_of(pictures), boxes, strict=True)
        return [self._encode(image, given) for image, given in pairs]

    def _encode(self, image: Image, boxes: Tensor) -> Tensor:
        # Of no boxes the whole picture tells how wide the vectors are.
        crops = [_crop(image, box) for box in boxes.tolist()] or [image]
        pixels = torch.stack([self.encoder.preprocess(crop) for crop in crops])
        return self.encoder.encode_images(pixels.to(self._device))[: len(boxes)]


def _crop(image: Image, box: Sequence[float]) -> Image:
    left = min(max(floor(box[0]), 0), image.width - 1)
    top = min(max(floor(box[1]), 0), image.height - 1)
    right = min(max(ceil(box[2]), left + 1), image.width)
    bottom = min(max(ceil(box[3]), top + 1), image.height)
    return image.crop((left, top, right, bottom))
