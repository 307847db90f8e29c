"""Overlap of boxes in xyxy coordinates on a continuous plane: no pixel is added to a width.

A box may extend beyond its image. A box of area 0 overlaps nothing and contains nothing. All
functions raise ValueError for a box that is not four finite numbers, or whose corners are swapped.
"""

from __future__ import annotations

import torch
from torch import Tensor


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Return the intersection over union of [N, 4] and [M, 4] boxes, float64 [N, M] in [0, 1].

    Example:
        >>> overlap = iou(torch.tensor([[0, 0, 2, 2]]), torch.tensor([[1, 1, 3, 3]]))
        >>> round(float(overlap), 4)  # 1 / (4 + 4 - 1)
        0.1429
    """
    common = _intersections(first, second)
    union = areas(first)[:, None] + areas(second)[None] - common
    return common / union.masked_fill(common == 0, 1.0)


def centres_inside(boxes: Tensor, others: Tensor) -> Tensor:
    """Return whether the centre of each of [N, 4] boxes is in each of [M, 4] boxes, bool [N, M].

    The left and upper edges belong to a box, the right and lower edges do not.

    Example:
        >>> others = torch.tensor([[1, 1, 3, 3], [0, 0, 1, 1]])
        >>> centres_inside(torch.tensor([[0, 0, 2, 2]]), others).tolist()  # its centre is (1, 1)
        [[True, False]]
    """
    boxes, others = _in_float64(boxes), _in_float64(others)
    centre = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2
    return ((others[None, :, :2] <= centre) & (centre < others[None, :, 2:])).all(2)


def covered_fractions(patches: Tensor, boxes: Tensor) -> Tensor:
    """Return the fraction of each of [N, 4] patches inside each of [M, 4] boxes, float64 [N, M].

    It is a fraction of the patch's area, and 0 for a patch of area 0.

    Example:
        >>> covered_fractions(torch.tensor([[0, 0, 2, 2]]), torch.tensor([[1, 0, 5, 2]])).tolist()
        [[0.5]]
    """
    area = areas(patches)
    return _intersections(patches, boxes) / area.masked_fill(area == 0, 1.0)[:, None]


def areas(boxes: Tensor) -> Tensor:
    """Return the area of each of [N, 4] boxes, float64 [N].

    Example:
        >>> areas(torch.tensor([[0, 0, 2, 3], [1, 1, 1, 4]])).tolist()
        [6.0, 0.0]
    """
    boxes = _in_float64(boxes)
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _intersections(first: Tensor, second: Tensor) -> Tensor:
    first, second = _in_float64(first), _in_float64(second)
    low = torch.maximum(first[:, None, :2], second[None, :, :2])
    high = torch.minimum(first[:, None, 2:], second[None, :, 2:])
    return (high - low).clamp(min=0).prod(2)


def _in_float64(boxes: Tensor) -> Tensor:
    """Return boxes in float64, in which products of two float32 numbers are exact."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes have shape {list(boxes.shape)}; they must be [N, 4]")
    bad = (~boxes.isfinite()).any(1) | (boxes[:, 2:] < boxes[:, :2]).any(1)
    if bad.any():
        row = int(bad.nonzero()[0])
        raise ValueError(f"box {row} is {boxes[row].tolist()}; it needs x1 <= x2 and y1 <= y2")
    return boxes.double()
