"""What a file says of the regions of one image."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Found(NamedTuple):
    """Regions as they stand in a file, which `where` names.

    Boxes are xyxy pixels, or shares of the image's width and height where `is_relative`.
    """

    where: str
    boxes: Tensor
    vectors: Tensor
    size: tuple[int, int] | None = None
    scores: Tensor | None = None
    objects: list[int] | None = None
    labels: list[str] | None = None
    is_relative: bool = False


Reader = Callable[[], Found]
