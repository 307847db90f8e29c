"""The regions of one image as a file stores them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class StoredRegions(NamedTuple):
    """Regions as stored in a file; `where` names the file for error messages.

    Boxes are xyxy pixels, or if `is_relative` fractions of the image's width and height.
    `objects` are class numbers, `labels` class names.
    """

    where: str
    boxes: Tensor
    vectors: Tensor
    size: tuple[int, int] | None = None
    scores: Tensor | None = None
    objects: list[int] | None = None
    labels: list[str] | None = None
    is_relative: bool = False


# Reads the regions of one image.
Reader = Callable[[], StoredRegions]
