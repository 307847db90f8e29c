"""One npz file per image, in the formats of ROSITA and MCAN (x, boxes or bbox) and of UNITER."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vlbench.data.formats.archives import DAMAGED, Array, read_npz
from vlbench.data.regions.records import Reader, StoredRegions
from vlbench.errors import DataError

WANTED = ("x", "features", "boxes", "bbox", "norm_bb", "conf", "image_w", "image_h")

Arrays = Mapping[str, Array]


def index(file: Path) -> dict[str, Reader]:
    """Return a reader of the file, by its name."""
    return {file.name: partial(_read, file)}


def _read(file: Path) -> StoredRegions:
    try:
        arrays = read_npz(file, WANTED)
        size = (int(arrays["image_w"]), int(arrays["image_h"])) if "image_w" in arrays else None
    except DAMAGED as error:
        raise DataError(f"{file.name} cannot be read ({error}); fetch it again") from error
    where = file.name
    boxes = _first_array(arrays, ("boxes", "bbox", "norm_bb"), 2, where)
    vectors = _first_array(arrays, ("x", "features"), 2, where)
    # MCAN stores one column per region.
    is_upright = len(vectors) == len(boxes) or vectors.shape[-1] != len(boxes)
    return StoredRegions(
        where,
        # UNITER appends width and height.
        boxes[:, :4],
        vectors if is_upright else vectors.T.contiguous(),
        size,
        _first_array(arrays, ("conf",), 1, where) if "conf" in arrays else None,
        is_relative="boxes" not in arrays and "bbox" not in arrays,
    )


def _first_array(arrays: Arrays, names: tuple[str, ...], axes: int, where: str) -> Tensor:
    """Return the first of these arrays that the file contains, as float32."""
    present = [name for name in names if name in arrays]
    if not present:
        raise DataError(f"{where} has no {' or '.join(names)}; it has {', '.join(arrays)}")
    array = arrays[present[0]]
    if array.ndim != axes or array.dtype.kind not in "fiu":
        message = (
            f"{where}: {present[0]} is {array.dtype} {array.shape}, not {axes} axes of numbers"
        )
        raise DataError(message)
    return torch.from_numpy(array.astype(np.float32))
