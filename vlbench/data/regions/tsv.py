"""Tab-separated files with arrays in base64, in the formats of bottom-up attention and LXMERT."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vlbench.data.regions.records import Reader, StoredRegions
from vlbench.errors import DataError

# The columns of both formats, by their number.
COLUMNS = {
    6: ("img_id", "img_w", "img_h", "num_boxes", "boxes", "features"),
    10: (
        *("img_id", "img_h", "img_w", "objects_id", "objects_conf", "attrs_id", "attrs_conf"),
        *("num_boxes", "boxes", "features"),
    ),
}
INTEGERS = ("img_w", "img_h", "num_boxes")

Row = dict[str, bytes]


def index(file: Path) -> dict[str, Reader]:
    """Return a reader of the row of each image. Raises DataError with the file and the line."""
    readers: dict[str, Reader] = {}
    offset, width = 0, 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{file.name}, line {number}"
            row = _columns(line, where)
            row_width = _width(row, where)
            if width not in {0, row_width}:
                raise DataError(
                    f"{where}: vectors {row_width} wide, but the rows above are {width} wide"
                )
            name = _name(row, where)
            if name in readers:
                raise DataError(f"{where}: a second row of image {name}")
            readers[name] = partial(_read, file, offset, where)
            offset, width = offset + len(line), row_width
    return readers


def _columns(line: bytes, where: str) -> Row:
    values = line.rstrip(b"\r\n").split(b"\t")
    if len(values) not in COLUMNS:
        raise DataError(f"{where}: {len(values)} columns, not 6 or 10: the row is cut off")
    row = dict(zip(COLUMNS[len(values)], values, strict=True))
    arrays = [name for name in row if name not in {"img_id", *INTEGERS}]
    row |= {name: _bare(row[name]) for name in arrays}
    if wrong := [name for name in INTEGERS if not row[name].isdigit() or len(row[name]) > 9]:
        raise DataError(f"{where}: {wrong[0]} is not a number")
    return row


def _bare(encoded: bytes) -> bytes:
    """Return base64 without the b'...' that Python 3 writes around it as a text."""
    quoted = encoded.startswith(b"b'") and encoded.endswith(b"'")
    return encoded[2:-1] if quoted else encoded


def _name(row: Row, where: str) -> str:
    try:
        return row["img_id"].decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: img_id is not UTF-8") from error


def _width(row: Row, where: str) -> int:
    """Return the width of a row's vectors from the length of their encoding, without decoding."""
    boxes, length = int(row["num_boxes"]), len(row["features"])
    size = length // 4 * 3 - row["features"][-2:].count(b"=")
    if length % 4 or not boxes or not size or size % (4 * boxes):
        raise DataError(f"{where}: the features are not {boxes} vectors: the row is cut off")
    return size // (4 * boxes)


def _read(file: Path, offset: int, where: str) -> StoredRegions:
    with file.open("rb") as lines:
        lines.seek(offset)
        row = _columns(lines.readline(), where)
    boxes = int(row["num_boxes"])
    has_objects = "objects_id" in row
    features = _floats(row, "features", where)
    if not boxes or not len(features) or len(features) % boxes:
        raise DataError(f"{where}: {len(features)} features of {boxes} boxes")
    return StoredRegions(
        where,
        _floats(row, "boxes", where).reshape(boxes, -1),
        features.reshape(boxes, -1),
        (int(row["img_w"]), int(row["img_h"])),
        _floats(row, "objects_conf", where) if has_objects else None,
        _array(row, "objects_id", np.int64, where).tolist() if has_objects else None,
    )


def _floats(row: Row, name: str, where: str) -> Tensor:
    return torch.from_numpy(_array(row, name, np.float32, where))


def _array(row: Row, name: str, dtype: Any, where: str) -> np.ndarray[Any, Any]:
    """Return the numbers of a column, equally many per box."""
    try:
        content = base64.b64decode(row[name], validate=True)
        numbers: np.ndarray[Any, Any] = np.frombuffer(content, dtype).copy()
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{where}: {name} is not base64 of numbers ({error})") from error
    width = {"boxes": 4, "features": None}.get(name, 1)
    boxes = int(row["num_boxes"])
    if width and len(numbers) != width * boxes:
        raise DataError(f"{where}: {name} has {len(numbers)} numbers for {boxes} boxes")
    return numbers
