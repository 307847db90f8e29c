"""The attention from text to the parts of an image, and the boxes of these parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from vlbench.adapter_kit.text import Spans
from vlbench.capabilities import JointAttention


def one_stream_attention(
    layers: Sequence[Tensor], spans: Sequence[Spans], boxes: Sequence[Tensor], *, start: int
) -> list[JointAttention]:
    """Return the attention of a model that reads text and image as one sequence.

    `layers` are [N, heads, L, L] each, a softmax over the whole sequence, with the text's tokens
    first. For pair i, `spans[i]` belong to the first rows, and the boxes `boxes[i]` [R, 4] to the
    columns from `start` on. Tokens that have no span have no row in the result.
    """
    return _joint(layers, spans, boxes, start, whole=True)


def cross_attention(
    layers: Sequence[Tensor], spans: Sequence[Spans], boxes: Sequence[Tensor]
) -> list[JointAttention]:
    """Return the attention of a model whose text attends only to the image.

    `layers` are [N, heads, T, R] each, a softmax over the image. For pair i, `spans[i]` belong to
    the rows, and the boxes `boxes[i]` [R, 4] to the first columns. Tokens that have no span have
    no row in the result.
    """
    return _joint(layers, spans, boxes, 0, whole=False)


def without_whole(layers: Iterable[Tensor]) -> list[Tensor]:
    """Return attention [..., 1 + R] without its first column, scaled to sum to 1, float32 [..., R].

    The first column is the attention to the whole image, which is not among its R parts.
    """
    parts = [layer[..., 1:].float() for layer in layers]
    tiny = torch.finfo(torch.float32).tiny
    return [part / part.sum(-1, keepdim=True).clamp_min(tiny) for part in parts]


def patch_boxes(rows: int, columns: int, size: tuple[int, int]) -> Tensor:
    """Return the box of each patch of a grid over an image, row by row, [R, 4] xyxy pixels."""
    y = torch.linspace(0, size[1], rows + 1)
    x = torch.linspace(0, size[0], columns + 1)
    top, left = torch.meshgrid(y[:-1], x[:-1], indexing="ij")
    bottom, right = torch.meshgrid(y[1:], x[1:], indexing="ij")
    return torch.stack([left, top, right, bottom], -1).reshape(-1, 4)


def _joint(
    layers: Sequence[Tensor],
    spans: Sequence[Spans],
    boxes: Sequence[Tensor],
    start: int,
    *,
    whole: bool,
) -> list[JointAttention]:
    attentions = []
    for i, (row, regions) in enumerate(zip(spans, boxes, strict=True)):
        tokens = torch.tensor([t for t, span in enumerate(row) if span], dtype=torch.long)
        columns = slice(start, start + len(regions))
        weights = torch.stack([layer[i][:, tokens, columns] for layer in layers]).float()
        attentions.append(JointAttention([span for span in row if span], weights, regions, whole))
    return attentions


def overlap_shares(boxes: Tensor, cells: Tensor) -> Tensor:
    """Return the fraction of each box's overlap that falls in each cell, [N, R], N boxes, R cells.

    A box that overlaps no cell is assigned to the cell with the nearest centre. All are xyxy.
    """
    boxes, cells = boxes.double().cpu(), cells.double().cpu()
    low = torch.maximum(boxes[:, None, :2], cells[:, :2])
    high = torch.minimum(boxes[:, None, 2:], cells[:, 2:])
    areas = (high - low).clamp_min(0).prod(-1)
    of_boxes, others = ((corners[:, :2] + corners[:, 2:]) / 2 for corners in (boxes, cells))
    nearest = torch.zeros_like(areas).scatter(1, torch.cdist(of_boxes, others).argmin(1, True), 1)
    areas = torch.where(areas.sum(1, keepdim=True) > 0, areas, nearest)
    return areas / areas.sum(1, keepdim=True)
