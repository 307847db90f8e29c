"""What models that read texts and pictures together share: token ids, regions, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import JointAttention, Picture, Regions
from vlbench.errors import DataError
from vlbench.hf import Source, fast_tokenizer, token_span

# The span of each token of a text; None for a special one and for padding.
Spans = list[tuple[int, int] | None]


class TextReader:
    """A tokenizer, and the number of tokens that it cuts texts to."""

    def __init__(self, source: Source, limit: int) -> None:
        self.tokenizer = fast_tokenizer(source)
        self.limit: int = min(self.tokenizer.model_max_length, limit)

    def read(self, texts: Sequence[str], device: torch.device) -> tuple[Any, list[Spans]]:
        """Return a padded batch, as the model takes it, and the spans of each text."""
        batch = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.limit,
            return_attention_mask=True,
            return_offsets_mapping=True,
            return_tensors="pt",
        ).to(device)
        offsets = batch.pop("offset_mapping").tolist()
        spans = [
            [token_span(text, *ends) for ends in row]
            for text, row in zip(texts, offsets, strict=True)
        ]
        return batch, spans

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones included, before it is cut."""
        return [len(ids) for ids in self.tokenizer(list(texts), verbose=False).input_ids]


class RegionBatch(NamedTuple):
    """Padded regions: vectors [N, R, D], corners [N, R, 4] as shares of width and height.

    `mask` [N, R] is 1 where a region is, and `counts` says how many each picture has.
    """

    vectors: Tensor
    corners: Tensor
    mask: Tensor
    counts: list[int]


def regions_of(pictures: Sequence[Picture]) -> list[Regions]:
    """Return the regions of each picture. Raises DataError where they or their vectors lack."""
    found = [picture.regions for picture in pictures]
    regions = [one for one in found if one is not None and one.vectors is not None]
    if len(regions) < len(found):
        place = next(i for i, one in enumerate(found) if one is None or one.vectors is None)
        raise DataError(f"picture {place} of the batch has no region vectors")
    return regions


def pad_regions(regions: Sequence[Regions], widths: Sequence[int], device: Any) -> RegionBatch:
    """Return regions as one batch. Raises DataError for vectors of none of the widths."""
    vectors, corners = [], []
    for i, one in enumerate(regions):
        assert one.vectors is not None
        if one.vectors.shape[1] not in widths:
            wanted = " or ".join(map(str, widths))
            raise DataError(
                f"picture {i} of the batch has region vectors {one.vectors.shape[1]} wide; "
                f"the model reads {wanted}"
            )
        vectors.append(one.vectors.float())
        corners.append(one.boxes.float() / torch.tensor([*one.size, *one.size]).to(one.boxes))
    counts = [len(one) for one in vectors]
    places = torch.arange(max(counts, default=0))
    mask = (places[None] < torch.tensor(counts)[:, None]).long()
    return RegionBatch(_pad(vectors, device), _pad(corners, device), mask.to(device), counts)


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


def _pad(blocks: Sequence[Tensor], device: Any) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(blocks), batch_first=True).to(device)
