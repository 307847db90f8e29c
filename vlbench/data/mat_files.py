"""Arrays of numbers in MATLAB 5 files, as SVHN has them, plain or compressed.

Read here because scipy's reader allocates what a file announces, and ends the process where the
number of a type is damaged. The layout is that of MathWorks' "MAT-File Format".
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from vlbench.data.archives import CHUNK, Array

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
    found: dict[str, Array] = {}
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
                found |= _matrix(body, order, names)
    return found


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
