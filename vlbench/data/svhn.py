"""Street View House Numbers: cropped digits (format 2) and full numbers (format 1).

Netzer et al. 2011, Reading Digits in Natural Images with Unsupervised Feature Learning.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from vlbench.data import hub_sets
from vlbench.data.formats.archives import CHUNK, DAMAGED, Array
from vlbench.data.images import DIGITS, array_images, file_images, labelled
from vlbench.data.presence import begin_reading
from vlbench.data.records import Data, Split, value_column
from vlbench.errors import DataAbsent, DataError

# The last bytes of the header, and how numbers are stored under them.
BYTE_ORDERS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}

MATRIX, COMPRESSED = 14, 15

# NumPy's type of each numeric type of data.
TYPES = dict(
    zip(
        (1, 2, 3, 4, 5, 6, 7, 9, 12, 13),
        ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "i8", "u8"),
        strict=True,
    )
)

# Classes of matrices with numbers; the others hold cells, structures, objects and text.
NUMERIC = range(6, 16)
IS_COMPLEX = 0x800


def read_mat(path: Path, names: Sequence[str], *, most: int) -> dict[str, Array]:
    """Return those of the arrays that a file has, each unpacked to at most `most` bytes.

    Raises ValueError, struct.error, zlib.error or OSError for other files.
    """
    arrays: dict[str, Array] = {}
    with path.open("rb") as file:
        order = BYTE_ORDERS.get(file.read(128)[124:])
        if order is None:
            raise ValueError("not a MATLAB 5 file")
        while tag := file.read(8):
            kind, size = struct.unpack(f"{order}II", tag)
            body = _body(file, size, most, is_packed=kind == COMPRESSED)
            if kind == COMPRESSED:
                kind, size = struct.unpack(f"{order}II", body[:8])
                body = body[8:]
            if len(body) != size or size > most:
                raise ValueError(f"a part of {size} bytes is cut off or over {most}")
            if kind == MATRIX:
                arrays |= _matrix(body, order, names)
    return arrays


def _body(file: IO[bytes], size: int, most: int, *, is_packed: bool) -> memoryview:
    """Return the next `size` bytes, unpacked, but no more than little over `most`."""
    stream, body = zlib.decompressobj(), bytearray()
    while size > 0 and len(body) <= most and (chunk := file.read(min(CHUNK, size))):
        size -= len(chunk)
        while chunk and len(body) <= most:
            body += stream.decompress(chunk, CHUNK) if is_packed else chunk
            chunk = stream.unconsumed_tail if is_packed else b""
    return memoryview(body)


def _matrix(body: memoryview, order: str, names: Sequence[str]) -> dict[str, Array]:
    """Return the array of a matrix by its name, or nothing where it is not wanted."""
    parts = _parts(body, order)
    (_, flags), (_, dimensions), (_, name) = next(parts), next(parts), next(parts)
    named = bytes(name).decode("ascii")
    if named not in names:
        return {}
    (kind,) = struct.unpack(f"{order}I", flags[:4])
    if kind & 0xFF not in NUMERIC or kind & IS_COMPLEX:
        raise ValueError(f"{named} is no matrix of real numbers")
    shape = np.frombuffer(dimensions, f"{order}i4").tolist()
    dtype, content = next(parts)
    if dtype not in TYPES or min(shape, default=-1) < 0:
        raise ValueError(f"{named} is of type {dtype} and shape {shape}")
    flat: Array = np.frombuffer(content, order + TYPES[dtype])
    if len(flat) != math.prod(shape):
        raise ValueError(f"{named} has {len(flat)} numbers, not the {shape} announced")
    return {named: flat.reshape(shape, order="F")}


def _parts(body: memoryview, order: str) -> Iterator[tuple[int, Any]]:
    """Yield the type and the content of each part of a matrix."""
    place = 0
    while place < len(body):
        kind, size = struct.unpack(f"{order}II", body[place : place + 8])
        start = place + 8
        if kind >> 16:  # a part of at most four bytes lies within its own tag
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
        content = body[start : start + size]
        if len(content) != size:
            raise ValueError("a part of a matrix is cut off")
        yield kind, content
        place = start + size + -(start + size) % 8
    raise ValueError("a matrix lacks a part")


HOME = "ufldl.stanford.edu/housenumbers"
CROPS = {"train": 73_257, "test": 26_032}
NUMBERS = {"train": 33_402, "test": 13_068}

# The most digits of a number and letters of a file's name; the files have 6 and 9.
MOST_DIGITS, MOST_LETTERS = 100, 255


class _Number(NamedTuple):
    """A picture of a house number: its file, and a box and a label per digit."""

    name: str
    boxes: list[list[float]]
    labels: list[int]


def svhn(*, root: Path, download: bool = False) -> Data:
    """Return the cropped digits, 32x32, of `train_32x32.mat` and `test_32x32.mat`.

    Where `root` has neither, `download` fetches both from the hub.
    """
    paths = {split: root / f"{split}_32x32.mat" for split in CROPS}
    paths = {split: path for split, path in paths.items() if path.is_file()}
    if not paths:
        where = f"{root}/{{train,test}}_32x32.mat"
        absent = DataAbsent("SVHN (cropped digits)", f"the hub (--download) or {HOME}", where)
        if not download:
            raise absent
        return hub_sets.from_hub(hub_sets.SVHN, absent, expected=CROPS, classes=DIGITS)
    begin_reading()
    splits = {split: _crops(path) for split, path in paths.items()}
    expected = {split: CROPS[split] for split in splits}
    return Data(splits=splits, classes=DIGITS, expected=expected)


def svhn_numbers(*, root: Path) -> Data:
    """Return whole pictures of house numbers: columns image, boxes and labels.

    `boxes` has one [left, top, right, bottom] per digit, in pixels as annotated; some reach beyond
    the picture. `labels` has the digits, 0..9, in the same order. Needs h5py.
    """
    folders = {split: root / split for split in NUMBERS}
    folders = {s: folder for s, folder in folders.items() if (folder / "digitStruct.mat").is_file()}
    if not folders:
        where = f"{root}/{{train,test}}/digitStruct.mat and the PNG files beside it"
        raise DataAbsent("SVHN (full numbers)", HOME, where)
    begin_reading()
    splits = {split: _numbers(folder) for split, folder in folders.items()}
    expected = {split: NUMBERS[split] for split in splits}
    return Data(splits=splits, classes=DIGITS, expected=expected)


def _crops(path: Path) -> Split:
    """Return a split of X, uint8 [32, 32, 3, N], and y, [N, 1], in which 10 means the digit 0."""
    most = CROPS["train"]
    try:
        content = read_mat(path, ("X", "y"), most=most * 32 * 32 * 3 + CHUNK)
        pixels, labels = content["X"], content["y"].ravel().tolist()
    except DAMAGED as error:
        raise _unreadable(path.name, error) from error
    if pixels.dtype != np.uint8 or pixels.shape[:-1] != (32, 32, 3):
        message = f"X is {pixels.dtype} {pixels.shape}, not uint8 [32, 32, 3, N]"
        raise DataError(f"{path.name}: {message}")
    if pixels.shape[-1] > most:
        raise DataError(f"{path.name} holds {pixels.shape[-1]} digits, the set at most {most}")
    # One image's pixels side by side: reading them across the array misses the cache each time.
    images = array_images(np.ascontiguousarray(pixels.transpose(3, 0, 1, 2)))
    return labelled(images, _digits(path.name, labels), classes=10, where=path.name)


def _numbers(folder: Path) -> Split:
    numbers = _digit_struct(folder / "digitStruct.mat")
    return Split(
        {
            "image": file_images(
                folder, [number.name for number in numbers], listed="digitStruct.mat"
            ),
            "boxes": value_column([number.boxes for number in numbers]),
            "labels": value_column([number.labels for number in numbers]),
        }
    )


def _digit_struct(path: Path) -> list[_Number]:
    """Return the records of a MATLAB 7.3 (HDF5) file, in its order."""
    where = f"{path.parent.name}/{path.name}"
    try:
        import h5py  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise DataError(f"{where} needs h5py to be read; pip install 'vlbench[hdf5]'") from error
    try:
        with h5py.File(path) as file:
            table = file["digitStruct"]
            if max(table["name"].size, table["bbox"].size) > max(NUMBERS.values()):
                raise ValueError("more pictures than the set has")
            names, boxes = table["name"][:, 0], table["bbox"][:, 0]
            return [_number(file, *both, where) for both in zip(names, boxes, strict=True)]
    except DAMAGED as error:
        raise _unreadable(where, error) from error


def _number(file: Any, name: Any, bbox: Any, where: str) -> _Number:
    fields = {key: _values(file, file[bbox][key]) for key in ("left", "top", "width", "height")}
    boxes = [[x, y, x + w, y + h] for x, y, w, h in zip(*fields.values(), strict=True)]
    labels = _digits(where, _values(file, file[bbox]["label"]))
    if not all(map(math.isfinite, chain(*boxes))):
        raise ValueError("a box that is not finite")
    return _Number("".join(map(chr, _read(file[name], MOST_LETTERS))), boxes, labels)


def _values(file: Any, field: Any) -> list[float]:
    """Return a field's numbers: MATLAB stores a single one as it is and several as references."""
    stored = _read(field, MOST_DIGITS)
    return [float(v if len(stored) == 1 else _read(file[v], 1)[0]) for v in stored]


def _read(dataset: Any, most: int) -> Any:
    """Return the values of a dataset, flat. Raises ValueError where it announces more."""
    if dataset.size > most:
        raise ValueError(f"{dataset.size} values where {most} are expected at most")
    return dataset[:].ravel()


def _digits(where: str, labels: list[float]) -> list[int]:
    wrong = [label for label in labels if label not in range(1, 11)]
    if wrong:
        raise DataError(f"{where}: label {wrong[0]} is not in 1..10")
    return [int(label) % 10 for label in labels]


def _unreadable(where: str, error: Exception) -> DataError:
    message = f"{where} is not a file of SVHN ({type(error).__name__}); fetch it again"
    return DataError(message)
