"""Compressed files, unpacked up to a limit: small files may contain gigabytes.

A whole archive may unpack to a multiple of its size, an array in it to a number of bytes.
"""

from __future__ import annotations

import gzip
import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from vlbench.system.files import read_bytes

# Exceptions of readers for compressed files and arrays that are damaged or of another format.
DAMAGED = (
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, SyntaxError),
    *(RuntimeError, MemoryError),
)

# The most bytes of an array, a hundred times the region features of an image.
MOST_BYTES = 64 << 20

# Bytes read at a time.
CHUNK = 1 << 20

Array = np.ndarray[Any, Any]
# Weights and tables of numbers shrink to a half or a third, zeros to a thousandth.
MOST_TIMES = 100
MOST_UNPACKED = 2**36


def read_npz(path: Path, names: Sequence[str], *, most: int = MOST_BYTES) -> dict[str, Array]:
    """Return the named arrays that a file contains, each of at most `most` bytes.

    Raises one of DAMAGED for other files, including arrays of Python objects.
    """
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return {n: _npy(_unzip(archive, members[n], most)) for n in names if n in members}


def read_npy(path: Path, *, most: int = MOST_BYTES) -> Array:
    """Return the array in a .npy file of at most `most` bytes.

    Raises one of DAMAGED for other files, including arrays of Python objects.
    """
    return _npy(read_bytes(path, most))


def _unzip(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    # Only these two compressions are unpacked piece by piece.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is not compressed as NumPy does it")
    if member.file_size > most:
        raise ValueError(
            f"{member.filename} contains {member.file_size} bytes; at most {most} are allowed"
        )
    with archive.open(member) as file:
        return file.read(member.file_size)


def _npy(content: bytes) -> Array:
    """Return the array in the bytes of a .npy file; NumPy would allocate the declared size."""
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


def most_bytes(file: Path, times: float = MOST_TIMES) -> int:
    """Return the most bytes that a file may unpack to: `times` its size, and at most 64 GiB."""
    return int(min(file.stat().st_size * times, MOST_UNPACKED))


@contextmanager
def open_zip(file: Path, times: float = MOST_TIMES) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive that declares at most `times` its size.

    No member unpacks to more than it declares. Raises ValueError for an archive that declares more,
    and the exceptions of zipfile for a broken archive.
    """
    with zipfile.ZipFile(file) as archive:
        declared = sum(member.file_size for member in archive.infolist())
        if declared > most_bytes(file, times):
            raise _too_large(file, f"{declared} bytes")
        yield archive


def open_gzip(file: Path) -> IO[bytes]:
    """Open a gzip file; reading raises ValueError if it unpacks to over 100 times its size."""
    return io.BufferedReader(_Limited(file, most_bytes(file)))


def _too_large(file: Path, what: str) -> ValueError:
    size = file.stat().st_size
    return ValueError(f"it has {size} bytes and unpacks to {what}: it is broken or malicious")


class _Limited(io.RawIOBase):
    """The unpacked bytes of a gzip file, up to a limit."""

    def __init__(self, file: Path, most: int) -> None:
        self._stream = gzip.open(file)  # noqa: SIM115 - closed with this object
        self._file = file
        self._left = most

    def readable(self) -> bool:
        """Return True, as BufferedReader requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return how many bytes were read. Raises ValueError."""
        count = self._stream.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise _too_large(self._file, f"more than {most_bytes(self._file)}")
        return count

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()
