"""Joint attention of text tokens to regions or patches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vlbench.adapter_kit.text import Spans
from vlbench.capabilities import JointAttention


def joint_attention(
    layers: Sequence[Tensor],
    spans: Sequence[Spans],
    columns: Sequence[Sequence[int]],
    boxes: Sequence[Tensor],
    *,
    whole: bool,
) -> list[JointAttention]:
    """Return, for each pair, the rows of tokens that have a span and the columns of its boxes.

    `layers` are [N, heads, rows, columns] each.
    """
    found = []
    for i, (row, seen, places) in enumerate(zip(spans, columns, boxes, strict=True)):
        tokens = torch.tensor([t for t, span in enumerate(row) if span], dtype=torch.long)
        wanted = (tokens[:, None], torch.tensor(seen, dtype=torch.long)[None])
        weights = torch.stack([layer[i][:, *wanted] for layer in layers]).float()
        found.append(JointAttention([span for span in row if span], weights, places, whole))
    return found


def patch_boxes(rows: int, columns: int, size: tuple[int, int]) -> Tensor:
    """Return the box of each patch of a grid laid over an image, row by row, [R, 4] xyxy pixels."""
    y = torch.linspace(0, size[1], rows + 1)
    x = torch.linspace(0, size[0], columns + 1)
    top, left = torch.meshgrid(y[:-1], x[:-1], indexing="ij")
    bottom, right = torch.meshgrid(y[1:], x[1:], indexing="ij")
    return torch.stack([left, top, right, bottom], -1).reshape(-1, 4)
