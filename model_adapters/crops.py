"""Region vectors from an image encoder: of each box as a crop, or of the encoder's grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image as PilImage
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.attention import overlap_shares, patch_boxes
from vlbench.adapter_kit.images import crop_box, images_of, pixels_of
from vlbench.capabilities import GridEncoder, ImageEncoder, Picture
from vlbench.errors import CannotDo

# `find_view` uses a picture whose colours are its coordinates, with sides of at least LEAST_SIDE
# pixels. Only coordinates in INSIDE count, because a resized picture's edges are distorted. They
# may deviate from a line by STRAIGHT. Both are fractions of the picture.
LEAST_SIDE, INSIDE, STRAIGHT = 64, (0.1, 0.9), 0.02


class Crops:
    """Encodes each box with an image encoder, as a separate image.

    Args:
        encoder: image encoder that encodes the boxes.
    """

    note = "each box is cropped and encoded as an image"

    def __init__(
        self, *, device: torch.device, dtype: torch.dtype = torch.float32, encoder: ImageEncoder
    ) -> None:
        del dtype  # The encoder determines the dtype.
        if getattr(encoder, "ragged", False):
            raise CannotDo("the image encoder keeps each picture's size; crops need one size")
        self.encoder = encoder
        self._device = device

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return float32 [R_i, D] for the boxes of each picture.

        A box is widened to whole pixels and cut at the edge of the picture; at least one pixel
        remains.
        """
        pairs = zip(images_of(pictures), boxes, strict=True)
        return [self._encode(image, given) for image, given in pairs]

    def _encode(self, image: Image, boxes: Tensor) -> Tensor:
        # If there are no boxes, the whole picture is encoded to find the width of the vectors.
        crops = [crop_box(image, box) for box in boxes.tolist()] or [image]
        pixels = torch.stack([self.encoder.preprocess(crop) for crop in crops])
        return self.encoder.encode_images(pixels.to(self._device))[: len(boxes)]


class Grid:
    """Encodes each box as the mean of the encoder's grid cells, weighted by overlap.

    Each picture passes through the encoder once. A box gets the nearest cell if it has no area, or
    if it is outside the part of the picture that the encoder's `preprocess` keeps.

    Args:
        encoder: image encoder that encodes the cells of a grid.
    """

    note = "each vector is the mean of the grid cells that its box covers"

    def __init__(
        self, *, device: torch.device, dtype: torch.dtype = torch.float32, encoder: GridEncoder
    ) -> None:
        del dtype
        if not isinstance(encoder, GridEncoder):
            raise CannotDo("the image encoder has no encode_grid, so it has no grid for regions")
        if getattr(encoder, "ragged", False):
            raise CannotDo("the image encoder keeps each picture's size; a grid needs one size")
        self.encoder = encoder
        self._device = device
        self._views: dict[tuple[int, int], View] = {}

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return float32 [R_i, D] for the boxes of each picture."""
        pixels = pixels_of(pictures, self.encoder.preprocess).to(self._device)
        grids = self.encoder.encode_grid(pixels).float()
        (tall, wide), (rows, columns) = pixels.shape[2:], grids.shape[2:]
        # Pixels at the edge that fill no whole cell belong to no cell.
        cells = patch_boxes(rows, columns, (wide // columns * columns, tall // rows * rows))
        sizes = [image.size for image in images_of(pictures)]
        placed = [self._view(size).place(box) for size, box in zip(sizes, boxes, strict=True)]
        return [
            overlap_shares(part, cells).to(grid) @ grid.flatten(1).T
            for part, grid in zip(placed, grids, strict=True)
        ]

    def _view(self, size: tuple[int, int]) -> View:
        """Return the encoder's view of pictures of a size, computed once per size."""
        if size not in self._views:
            self._views[size] = find_view(self.encoder.preprocess, size)
        return self._views[size]


class View(NamedTuple):
    """The map from a picture's pixels to an encoder's pixels: x, y, x, y each, [4]."""

    scale: Tensor
    offset: Tensor

    def place(self, boxes: Tensor) -> Tensor:
        """Return boxes [R, 4] of the picture as pixels of the view; they may be outside it."""
        return boxes.float().cpu() * self.scale + self.offset


def find_view(preprocess: Callable[[Image], Tensor], size: tuple[int, int]) -> View:
    """Return the part of a picture of (W, H) that `preprocess` keeps.

    It is measured on a picture of that shape whose red increases to the right and whose green
    increases downwards. Raises CannotDo if `preprocess` does more than resize and crop.
    """
    times = ceil(LEAST_SIDE / min(size))
    x, y = ((np.arange(side * times) + 0.5) / (side * times) for side in size)
    red, green = np.meshgrid(x, y)
    colours = np.stack([red, green, np.zeros_like(red)], 2)
    seen = preprocess(PilImage.fromarray((colours * 255).round().astype(np.uint8))).numpy()
    lines = [_fit_line(seen[0]), _fit_line(seen[1].T)]
    scale = [1 / (slope * side) for (slope, _), side in zip(lines, size, strict=True)]
    offset = [-start / slope for slope, start in lines]
    return View(torch.tensor(scale * 2), torch.tensor(offset * 2))


def _fit_line(coordinates: np.ndarray) -> tuple[float, float]:
    """Return slope and intercept of a line through coordinates [rows, columns], over the columns.

    Coordinates are fractions of the picture; columns are counted from the edge of the view. Raises
    CannotDo for coordinates that are not on a line.
    """
    means = coordinates.mean(0)
    centres = np.arange(len(means)) + 0.5
    inside = (means > INSIDE[0]) & (means < INSIDE[1])
    if inside.sum() > 1:
        slope, start = np.polyfit(centres[inside], means[inside], 1)
        off = np.abs(coordinates[:, inside] - (slope * centres[inside] + start)).max()
        if slope > 0 and off < STRAIGHT:
            return float(slope), float(start)
    raise CannotDo("the image encoder does more than resize and crop, so boxes cannot be mapped")
