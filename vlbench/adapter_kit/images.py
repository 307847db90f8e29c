"""Pictures as pixels: reading, resizing, cropping and normalising."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.capabilities import Picture
from vlbench.errors import DataError, SpecError

# Mean and standard deviation of red, green and blue: of ImageNet, and of the training data of CLIP.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))

# How the pixels of a resized image are computed.
Interpolation = Literal["bicubic", "bilinear", "nearest"]


def to_pixels(image: Image) -> Tensor:
    """Return an RGB image as float32 [3, H, W] in [0, 1]."""
    from torchvision.transforms import functional  # noqa: PLC0415 - takes seconds

    pixels: Tensor = functional.to_tensor(image)
    return pixels


def resizing(
    resize: int,
    crop: int | None = None,
    *,
    squash: bool = False,
    interpolation: Interpolation = "bicubic",
) -> Callable[[Image], Tensor]:
    """Return a function that makes float32 [3, crop, crop] in [0, 1] of an image.

    `resize` is the length of the shorter side, or of both with `squash`. `crop` is the side of the
    square cut from the centre; None means as large as `resize`. Raises SpecError for a larger one.
    """
    from torchvision import transforms  # noqa: PLC0415 - takes seconds

    crop = crop or resize
    if crop > resize:
        raise SpecError(f"crop {crop} is larger than resize {resize}: the border would be black")
    size = (resize, resize) if squash else resize
    steps: Callable[[Image], Tensor] = transforms.Compose(
        [
            transforms.Resize(size, transforms.InterpolationMode(interpolation)),
            transforms.CenterCrop(crop),
            transforms.ToTensor(),
        ]
    )
    return steps


def normalise(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Return pixels [..., 3, H, W] minus the mean and over the deviation of each channel."""
    centre, scale = (torch.tensor(v, device=pixels.device).view(3, 1, 1) for v in (mean, std))
    return (pixels - centre) / scale


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
