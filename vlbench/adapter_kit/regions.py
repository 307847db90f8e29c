"""Ready-made regions of pictures: padded batches, and the geometry of their boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Picture, Regions
from vlbench.errors import CannotDo, DataError


class RegionBatch(NamedTuple):
    """The regions of N pictures, padded to R each.

    `vectors` are float32 [N, R, D]. `corners` are float32 [N, R, 4]: x1, y1, x2, y2 as fractions of
    the image's width and height. `mask` int64 [N, R] is 1 for a region, 0 for padding. `counts`
    lists the number of regions per picture.
    """

    vectors: Tensor
    corners: Tensor
    mask: Tensor
    counts: list[int]


def regions_of(pictures: Sequence[Picture]) -> list[Regions]:
    """Return the regions of each picture.

    Raises CannotDo if no picture has regions, and DataError for a picture without region vectors.
    """
    of_pictures = [picture.regions for picture in pictures]
    regions = [entry for entry in of_pictures if entry is not None and entry.vectors is not None]
    if of_pictures and all(entry is None for entry in of_pictures):
        raise CannotDo("the model reads region vectors; the task's data have none")
    if len(regions) < len(of_pictures):
        place = next(i for i, one in enumerate(of_pictures) if one is None or one.vectors is None)
        raise DataError(f"picture {place} of the batch has no region vectors")
    return regions


def boxes_of(pictures: Sequence[Picture]) -> list[Tensor]:
    """Return the boxes of the regions of each picture. Raises as `regions_of` does."""
    return [regions.boxes for regions in regions_of(pictures)]


def pad_regions(regions: Sequence[Regions], widths: Sequence[int], device: Any) -> RegionBatch:
    """Return regions as one batch. Raises DataError for vectors whose width is not in `widths`."""
    vectors, corners = [], []
    for i, part in enumerate(regions):
        assert part.vectors is not None
        if part.vectors.shape[1] not in widths:
            sizes = " or ".join(map(str, widths))
            raise DataError(
                f"picture {i} of the batch has region vectors {part.vectors.shape[1]} wide; the "
                f"model reads width {sizes}"
            )
        vectors.append(part.vectors.float())
        corners.append(part.boxes.float() / torch.tensor([*part.size, *part.size]).to(part.boxes))
    (padded, mask), (places, _) = pad(vectors, device), pad(corners, device)
    return RegionBatch(padded, places, mask, [len(vector) for vector in vectors])


def pad(blocks: Sequence[Tensor], device: Any) -> tuple[Tensor, Tensor]:
    """Return N blocks [R_i, ...] as [N, R, ...] padded with 0, and a mask int64 [N, R].

    The mask is 1 for the rows of a block, 0 for padding.
    """
    padded = torch.nn.utils.rnn.pad_sequence(list(blocks), batch_first=True)
    counts = torch.tensor([len(block) for block in blocks])
    mask = torch.arange(padded.shape[1]) < counts[:, None]
    return padded.to(device), mask.long().to(device)


def box_geometry(corners: Tensor, numbers: int) -> Tensor:
    """Return the numbers that a model reads of a box, [..., numbers], from corners [..., 4].

    `corners` are as in RegionBatch. 4 numbers are x1, y1, x2, y2 (LXMERT); 5 add the area
    (ViLBERT); 6 add width and height (VisualBERT); 7 add width, height and area (UNITER). All are
    fractions of the image.
    """
    sizes = corners[..., 2:] - corners[..., :2]
    area = sizes.prod(-1, keepdim=True)
    added = {4: [], 5: [area], 6: [sizes], 7: [sizes, area]}
    if numbers not in added:
        raise ValueError(f"a box is described by 4 to 7 numbers, not {numbers}")
    return torch.cat([corners, *added[numbers]], -1)
