"""One npz file an image: as ROSITA and MCAN have it (x, boxes or bbox), and as UNITER has it."""

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

from vlbench.data.regions.records import Found, Reader
from vlbench.errors import DataError

# What NumPy raises for files that are cut short, or hold objects.
UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)

WANTED = ("x", "features", "boxes", "bbox", "norm_bb", "conf", "image_w", "image_h")

Arrays = Mapping[str, np.ndarray[Any, Any]]


def index(file: Path) -> dict[str, Reader]:
    """Return what reads a file, by its name."""
    return {file.name: partial(_read, file)}


def _read(file: Path) -> Found:
    try:
        # Of a file that is cut short, NumPy leaves open what it opened itself.
        with file.open("rb") as content, np.load(content, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in WANTED if name in archive}
    except UNREADABLE as error:
        raise DataError(f"{file.name} cannot be read ({error}); fetch it again") from error
    where = file.name
    boxes = _one(arrays, ("boxes", "bbox", "norm_bb"), where)
    vectors = _one(arrays, ("x", "features"), where)
    # MCAN's have a column for each region.
    is_upright = len(vectors) == len(boxes) or vectors.shape[-1] != len(boxes)
    size = (int(arrays["image_w"]), int(arrays["image_h"])) if "image_w" in arrays else None
    return Found(
        where,
        # UNITER's go on with width and height.
        boxes[:, :4],
        vectors if is_upright else vectors.T.contiguous(),
        size,
        _one(arrays, ("conf",), where) if "conf" in arrays else None,
        is_relative="boxes" not in arrays and "bbox" not in arrays,
    )


def _one(arrays: Arrays, names: tuple[str, ...], where: str) -> Tensor:
    """Return the first of these arrays that is there, as float32."""
    there = [name for name in names if name in arrays]
    if not there:
        raise DataError(f"{where} has no {' or '.join(names)}; it has {', '.join(arrays)}")
    return torch.from_numpy(arrays[there[0]].astype(np.float32))
