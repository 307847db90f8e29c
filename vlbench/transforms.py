"""From a picture to pixels: resizing and cropping as tasks ask for them."""

from __future__ import annotations

from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize, ToTensor

from vlbench.errors import SpecError


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
