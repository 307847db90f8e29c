"""Crops of images."""

from collections.abc import Sequence
from math import ceil, floor

from PIL.Image import Image


def crop_box(image: Image, box: Sequence[float]) -> Image:
    """Return the crop of an image to a box (xyxy pixels), widened to whole pixels.

    It is cut at the edge of the image; at least one pixel remains.
    """
    left = min(max(floor(box[0]), 0), image.width - 1)
    top = min(max(floor(box[1]), 0), image.height - 1)
    right = min(max(ceil(box[2]), left + 1), image.width)
    bottom = min(max(ceil(box[3]), top + 1), image.height)
    return image.crop((left, top, right, bottom))
