"""Ready-made regions of pictures as padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Picture, Regions
from vlbench.errors import DataError


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


def _pad(blocks: Sequence[Tensor], device: Any) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(blocks), batch_first=True).to(device)
