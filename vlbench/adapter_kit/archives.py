"""Compressed files of weights, opened with a limit on what they unpack to."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from vlbench.errors import WeightsError

# Weights and tables of numbers shrink to a half or a third, and what is all zeros to a thousandth.
MOST_TIMES = 100
MOST_BYTES = 2**36


def most_bytes(file: Path, times: float = MOST_TIMES) -> int:
    """Return how many bytes a file may unpack to: `times` its size, and 64 GiB at most."""
    return int(min(file.stat().st_size * times, MOST_BYTES))


@contextmanager
def open_zip(file: Path, times: float = MOST_TIMES) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive that declares at most `times` its own size.

    No member gives more than it declares. Raises WeightsError for an archive that declares more,
    and what zipfile raises for a broken one.
    """
    with zipfile.ZipFile(file) as archive:
        declared = sum(member.file_size for member in archive.infolist())
        if declared > most_bytes(file, times):
            raise _too_large(file, f"{declared} bytes")
        yield archive


def open_gzip(file: Path) -> IO[bytes]:
    """Open a file of gzip; reading raises WeightsError where it unpacks to 100 times its size."""
    return io.BufferedReader(_Limited(file, most_bytes(file)))


def _too_large(file: Path, what: str) -> WeightsError:
    size = file.stat().st_size
    return WeightsError(
        f"{file} has {size} bytes and unpacks to {what}: it is broken, or made to fill the memory"
    )


class _Limited(io.RawIOBase):
    """The unpacked bytes of a file of gzip, up to a limit."""

    def __init__(self, file: Path, most: int) -> None:
        self._stream = gzip.open(file)  # noqa: SIM115 - closed with this object
        self._file = file
        self._left = most

    def readable(self) -> bool:
        """Return True, which tells BufferedReader that it can read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return how many bytes were read. Raises WeightsError."""
        count = self._stream.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise _too_large(self._file, f"more than {most_bytes(self._file)}")
        return count

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()
