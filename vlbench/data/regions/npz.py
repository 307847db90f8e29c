"""One npz file per image, in the formats of ROSITA and MCAN (x, boxes or bbox) and of UNITER."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vlbench.data.regions.records import Reader, StoredRegions
from vlbench.errors import DataError

# What NumPy raises for truncated files and for arrays of Python objects.
UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)

WANTED = ("x", "features", "boxes", "bbox", "norm_bb", "conf", "image_w", "image_h")

Arrays = Mapping[str, np.ndarray[Any, Any]]


def index(file: Path) -> dict[str, Reader]:
    """Return a reader of the file, by its name."""
    return {file.name: partial(_read, file)}


def _read(file: Path) -> StoredRegions:
    try:
        # Opened here, because NumPy does not close a truncated file that it opened itself.
        with file.open("rb") as content, np.load(content, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in WANTED if name in archive}
    except UNREADABLE as error:
        raise DataError(f"{file.name} cannot be read ({error}); fetch it again") from error
    where = file.name
    boxes = _first_array(arrays, ("boxes", "bbox", "norm_bb"), where)
    vectors = _first_array(arrays, ("x", "features"), where)
    # MCAN stores one column per region.
    is_upright = len(vectors) == len(boxes) or vectors.shape[-1] != len(boxes)
    size = (int(arrays["image_w"]), int(arrays["image_h"])) if "image_w" in arrays else None
    return StoredRegions(
        where,
        # UNITER appends width and height.
        boxes[:, :4],
        vectors if is_upright else vectors.T.contiguous(),
        size,
        _first_array(arrays, ("conf",), where) if "conf" in arrays else None,
        is_relative="boxes" not in arrays and "bbox" not in arrays,
    )


def _first_array(arrays: Arrays, names: tuple[str, ...], where: str) -> Tensor:
    """Return the first of these arrays that the file has, as float32."""
    present = [name for name in names if name in arrays]
    if not present:
        raise DataError(f"{where} has no {' or '.join(names)}; it has {', '.join(arrays)}")
    return torch.from_numpy(arrays[present[0]].astype(np.float32))
