"""Boxes as xyxy numbers on a continuous plane: no pixel is added to a width.

A box may lie outside its image. One of no area overlaps nothing and contains nothing. All raise
ValueError for a box that is not four finite numbers, or whose corners are the wrong way round.
"""

from __future__ import annotations

import torch
from torch import Tensor


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Return the intersection over union of [N, 4] and [M, 4] boxes, float64 [N, M] in [0, 1]."""
    shared = _shared(first, second)
    union = areas(first)[:, None] + areas(second)[None] - shared
    return shared / union.masked_fill(shared == 0, 1.0)


def centres_inside(boxes: Tensor, others: Tensor) -> Tensor:
    """Return whether the centre of each of [N, 4] boxes lies in each of [M, 4], bool [N, M].

    The left and upper edge belong to a box, the right and lower do not.
    """
    boxes, others = _checked(boxes), _checked(others)
    centre = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2
    return ((others[None, :, :2] <= centre) & (centre < others[None, :, 2:])).all(2)


def shares_inside(patches: Tensor, boxes: Tensor) -> Tensor:
    """Return how much of each of [N, 4] patches lies in each of [M, 4] boxes, float64 [N, M].

    The share of a patch of no area is 0.
    """
    area = areas(patches)
    return _shared(patches, boxes) / area.masked_fill(area == 0, 1.0)[:, None]


def areas(boxes: Tensor) -> Tensor:
    """Return the area of each of [N, 4] boxes, float64 [N]."""
    boxes = _checked(boxes)
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _shared(first: Tensor, second: Tensor) -> Tensor:
    first, second = _checked(first), _checked(second)
    low = torch.maximum(first[:, None, :2], second[None, :, :2])
    high = torch.minimum(first[:, None, 2:], second[None, :, 2:])
    return (high - low).clamp(min=0).prod(2)


def _checked(boxes: Tensor) -> Tensor:
    """Return boxes in float64, where no product of two float32 is rounded."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes have shape {list(boxes.shape)}; wanted [N, 4]")
    bad = (~boxes.isfinite()).any(1) | (boxes[:, 2:] < boxes[:, :2]).any(1)
    if bad.any():
        row = int(bad.nonzero()[0])
        raise ValueError(f"box {row} is {boxes[row].tolist()}; wanted x1 <= x2 and y1 <= y2")
    return boxes.double()
