"""BAN's HDF5 files (Kim et al. 2018, arXiv:1805.07932), with a pickle that maps images to rows."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vlbench.data.formats.archives import DAMAGED, MOST_BYTES, Array
from vlbench.data.formats.pickles import UNREADABLE, read_pickle, unreadable
from vlbench.data.presence import require_files
from vlbench.data.regions.records import Reader, StoredRegions
from vlbench.errors import DataError

NEEDED = ("image_features", "image_bb", "spatial_features")


def index(file: Path) -> dict[str, Reader]:
    """Return a reader per image, by its name. Raises DataAbsent if the pickle is missing."""
    try:
        with _open(file) as content:
            if missing := [name for name in NEEDED if name not in content]:
                raise DataError(f"{file.name} has no {missing[0]}; it has {', '.join(content)}")
            rows = len(content["pos_boxes" if "pos_boxes" in content else "image_features"])
    except DAMAGED as error:
        raise _damage(file, error) from error
    numbers = _numbers(index_file(file))
    if wrong := [name for name, row in numbers.items() if not 0 <= row < rows]:
        raise DataError(f"{file.name} has {rows} images: no row {numbers[wrong[0]]} ({wrong[0]})")
    return {name: partial(_read, file, row, name) for name, row in numbers.items()}


def index_file(file: Path) -> Path:
    """Return the path of the pickle beside a file."""
    return file.with_name(f"{file.stem}_imgid2idx.pkl")


def _numbers(file: Path) -> dict[str, int]:
    """Return the row of each image by its name."""
    require_files("the index of region features", "the people who made them", file)
    try:
        numbers = read_pickle(file, encoding="latin1")
    except UNREADABLE as error:
        raise unreadable(file.name, "a plain pickle of numbers", error) from error
    if not isinstance(numbers, dict) or not all(type(row) is int for row in numbers.values()):
        raise DataError(f"{file.name} does not give each image the number of a row")
    if not all(isinstance(name, str | int) for name in numbers):
        raise DataError(f"{file.name} must name images by texts or numbers")
    return {f"{name}": row for name, row in numbers.items()}


def _read(file: Path, row: int, name: str) -> StoredRegions:
    where = f"{file.name}, image {name}"
    try:
        with _open(file) as content:
            # Either one start and end per image, or a first axis of images.
            slots = content["pos_boxes"][row] if "pos_boxes" in content else None
            which = row if slots is None else slice(int(slots[0]), int(slots[1]))
            vectors, boxes, fractions = (_rows(content[key], which) for key in NEEDED)
        if len(boxes) == 0:
            raise DataError(f"{where} has no regions")
        size = _size(boxes, fractions)
    except DAMAGED as error:
        raise _damage(file, error) from error
    return StoredRegions(where, torch.from_numpy(boxes), torch.from_numpy(vectors), size)


def _rows(dataset: Any, which: int | slice) -> Array:
    """Return float32 [n, D]; the file may declare more than fits into memory."""
    if isinstance(which, slice):
        shape = (len(range(*which.indices(dataset.shape[0]))), *dataset.shape[1:])
    else:
        shape = dataset.shape[1:]
    if len(shape) != 2 or math.prod(shape) * dataset.dtype.itemsize > MOST_BYTES:
        raise ValueError(f"{dataset.name} has rows of {shape}")
    return np.asarray(dataset[which], np.float32)


def _size(boxes: Array, fractions: Array) -> tuple[int, int]:
    """Return the (W, H) of the image: x1/W, y1/H, x2/W, y2/H, w/W, h/H are its fractions."""
    # The largest values give the most exact size.
    right, bottom = boxes[:, 2].argmax(), boxes[:, 3].argmax()
    width = float(boxes[right, 2]) / float(fractions[right, 2])
    return round(width), round(float(boxes[bottom, 3]) / float(fractions[bottom, 3]))


def _damage(file: Path, error: Exception) -> DataError:
    why = f"{type(error).__name__}: {error}"
    return DataError(f"{file.name} is not like BAN's files ({why:.200}); fetch it again")


def _open(file: Path) -> Any:
    try:
        import h5py  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional dependency
    except ModuleNotFoundError as error:
        raise DataError(f"{file.name} is read with h5py: pip install 'vlbench[hdf5]'") from error
    try:
        return h5py.File(file, "r")
    except OSError as error:
        raise DataError(f"{file.name} is not a complete HDF5 file ({error})") from error
