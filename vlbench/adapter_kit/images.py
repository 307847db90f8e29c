"""From a picture to pixels: resizing and cropping as tasks ask for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from PIL.Image import Image
from torch import Tensor
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize, ToTensor

from vlbench.capabilities import Picture
from vlbench.errors import DataError, SpecError


def resizing(resize: int, crop: int | None, *, squash: bool = False) -> Compose:
    """Return what makes float32 [3, crop, crop] in [0, 1] of a picture, bicubic.

    `resize` is the length of the shorter side, or of both with `squash`; `crop` the side of the
    square taken from the centre, None for as large as `resize`. Raises SpecError for a larger one.
    """
    crop = crop or resize
    if crop > resize:
        raise SpecError(f"crop {crop} is larger than resize {resize}: the border would be black")
    size = (resize, resize) if squash else resize
    return Compose([Resize(size, InterpolationMode.BICUBIC), CenterCrop(crop), ToTensor()])


def images_of(pictures: Sequence[Picture]) -> list[Image]:
    """Return the image of each picture. Raises DataError for a picture without one."""
    images = [picture.image for picture in pictures]
    found = [image for image in images if image is not None]
    if len(found) < len(images):
        raise DataError(f"picture {images.index(None)} of the batch has no image")
    return found


def pixels_of(pictures: Sequence[Picture], preprocess: Callable[[Image], Tensor]) -> Tensor:
    """Return float32 [N, 3, H, W]. Raises DataError for a picture without an image."""
    return torch.stack([preprocess(image) for image in images_of(pictures)])
