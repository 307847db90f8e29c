"""Members of uncompressed tar files: where each begins, without unpacking any."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from vlbench.data.archives import CHUNK, DAMAGED
from vlbench.errors import DataError

# Of one header with its long names; a file may announce any number.
MOST_HEADER = 1 << 20


class Member(NamedTuple):
    """A file in a tar: its path up to the first dot of its name, what follows, and its bytes."""

    key: str
    suffix: str
    start: int
    size: int


class _Headers:
    """A file of which headers are read: never more at once than a header may hold."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.seek, self.tell = file, file.seek, file.tell

    def read(self, size: int) -> bytes:
        """Return bytes of a header. Raises tarfile.ReadError where it announces too many."""
        if not 0 <= size <= MOST_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._file.read(size)


def members(path: Path, named: str) -> Iterator[Member]:
    """Yield the files in a tar, in order, but hidden files and those without a suffix.

    Raises DataError, with the tar's name in errors and the member's, for what is no file (a link,
    say), has no plain relative path, or ends outside the tar; and for a tar that is damaged.
    """
    last = "its beginning"
    try:
        with path.open("rb") as file:
            # What tarfile reads are headers alone: data are skipped by seeking.
            with tarfile.open(fileobj=_Headers(file), mode="r:") as archive:  # type: ignore[call-overload]
                while (info := archive.next()) is not None:
                    # Otherwise it keeps all of them.
                    archive.members.clear()
                    last = repr(info.name)
                    if not info.isdir():
                        yield from _member(info, path.stat().st_size, named)
            _require_end(file, archive.offset)
    except (tarfile.TarError, *DAMAGED) as error:
        # Without the path that an OSError names, since a result may quote the message.
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        message = f"{named} is damaged after {last:.200}, or no uncompressed tar ({why:.200})"
        raise DataError(message) from error


def _member(info: tarfile.TarInfo, size: int, named: str) -> Iterator[Member]:
    """Yield a member that is a file with a suffix. Raises DataError."""
    where, path = f"{named}: {info.name!r:.200}", PurePosixPath(info.name)
    if not info.isreg() or info.issparse():
        raise DataError(f"{where} is no plain file; pack files, not links to them")
    if not info.name.isprintable() or path.is_absolute() or ".." in path.parts:
        raise DataError(f"{where} is no plain relative path")
    if info.size < 0 or info.offset_data + info.size > size:
        raise DataError(f"{where} announces {info.size} bytes, more than the tar has")
    stem, _, suffix = path.name.partition(".")
    # CLIP_benchmark writes two dots before the suffix of a file that it copies.
    suffix = suffix.lower().lstrip(".")
    if stem and suffix:
        key = (path.parent / stem).as_posix()
        yield Member(key, suffix, info.offset_data, info.size)


def _require_end(file: BinaryIO, start: int) -> None:
    """Raise ValueError where a tar does not end as it should.

    tarfile takes a broken header for the end.
    """
    file.seek(start)
    if len(rest := file.read(tarfile.BLOCKSIZE)) < tarfile.BLOCKSIZE:
        raise ValueError("it breaks off")
    while rest:
        if rest.strip(b"\0"):
            raise ValueError("what follows is no header")
        rest = file.read(CHUNK)
