"""Compressed files, unpacked no further than they may reach: small ones may hold gigabytes."""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vlbench.files import read_bytes

# What reading compressed files and arrays raises where they are damaged or of another format.
DAMAGED = (
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, SyntaxError),
    *(RuntimeError, MemoryError),
)

# The region features of an image take a hundredth of this.
MOST_BYTES = 64 << 20

# Bytes read at a time.
CHUNK = 1 << 20

Array = np.ndarray[Any, Any]


def read_npz(path: Path, names: Sequence[str], *, most: int = MOST_BYTES) -> dict[str, Array]:
    """Return those of the arrays that a file has, each of at most `most` bytes.

    Raises one of DAMAGED for other files, among them arrays of Python objects.
    """
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return {n: _npy(_unzipped(archive, members[n], most)) for n in names if n in members}


def read_npy(path: Path, *, most: int = MOST_BYTES) -> Array:
    """Return the array in a .npy file of at most `most` bytes.

    Raises one of DAMAGED for other files, among them arrays of Python objects.
    """
    return _npy(read_bytes(path, most))


def _unzipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    # Only these two are unpacked piece by piece.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is compressed in another way than NumPy's")
    if member.file_size > most:
        raise ValueError(f"{member.filename} holds {member.file_size} bytes, over {most}")
    with archive.open(member) as file:
        return file.read(member.file_size)


def _npy(content: bytes) -> Array:
    """Return the array in the bytes of a .npy file, which NumPy would allocate as announced."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        header = np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = header(file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} {shape}")
    flat: Array = np.frombuffer(content, dtype, math.prod(shape), file.tell())
    return flat.reshape(shape, order="F" if is_fortran else "C")
