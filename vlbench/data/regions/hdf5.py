"""BAN's HDF5 files (Kim et al. 2018, arXiv:1805.07932), with a pickle that maps images to rows."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vlbench.data.regions.records import Reader, StoredRegions
from vlbench.errors import DataAbsent, DataError

NEEDED = ("image_features", "image_bb", "spatial_features")


class _PlainUnpickler(pickle.Unpickler):
    """Unpickles dicts, strings and numbers, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def index(file: Path) -> dict[str, Reader]:
    """Return a reader per image, by its name. Raises DataAbsent without the pickle."""
    with _open(file) as content:
        if missing := [name for name in NEEDED if name not in content]:
            raise DataError(f"{file.name} has no {missing[0]}; it has {', '.join(content)}")
        rows = len(content["pos_boxes" if "pos_boxes" in content else "image_features"])
    numbers = _numbers(index_file(file))
    if wrong := [name for name, row in numbers.items() if not 0 <= row < rows]:
        raise DataError(f"{file.name} has {rows} images: no row {numbers[wrong[0]]} ({wrong[0]})")
    return {name: partial(_read, file, row, name) for name, row in numbers.items()}


def index_file(file: Path) -> Path:
    """Return the path of the pickle beside a file."""
    return file.with_name(f"{file.stem}_imgid2idx.pkl")


def _numbers(file: Path) -> dict[str, int]:
    """Return the row of each image by its name."""
    if not file.is_file():
        raise DataAbsent("the index of region features", "whoever made them", str(file))
    try:
        with file.open("rb") as content:
            numbers = _PlainUnpickler(content, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError) as error:
        raise DataError(f"{file.name} is not a plain pickle of numbers ({error})") from error
    if not isinstance(numbers, dict) or not all(type(row) is int for row in numbers.values()):
        raise DataError(f"{file.name} does not give each image the number of a row")
    return {str(name): row for name, row in numbers.items()}


def _read(file: Path, row: int, name: str) -> StoredRegions:
    with _open(file) as content:
        # Either one start and end per image, or a first axis of images.
        slots = content["pos_boxes"][row] if "pos_boxes" in content else None
        which = row if slots is None else slice(int(slots[0]), int(slots[1]))
        vectors, boxes, fractions = (np.asarray(content[key][which], np.float32) for key in NEEDED)
    where = f"{file.name}, image {name}"
    if len(boxes) == 0:
        raise DataError(f"{where} has no regions")
    # x1/W, y1/H, x2/W, y2/H, w/W, h/H: the largest values give the most exact size.
    right, bottom = boxes[:, 2].argmax(), boxes[:, 3].argmax()
    width, height = boxes[right, 2] / fractions[right, 2], boxes[bottom, 3] / fractions[bottom, 3]
    size = round(float(width)), round(float(height))
    return StoredRegions(where, torch.from_numpy(boxes), torch.from_numpy(vectors), size)


def _open(file: Path) -> Any:
    try:
        import h5py  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional dependency
    except ModuleNotFoundError as error:
        raise DataError(f"{file.name} is read with h5py: python -m pip install h5py") from error
    try:
        return h5py.File(file, "r")
    except OSError as error:
        raise DataError(f"{file.name} is not a complete HDF5 file ({error})") from error
