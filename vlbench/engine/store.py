"""Feature store: checksummed files keyed by digest, written completely or not at all.

A file is a checksum of 32 bytes, of its key, part and body, and the body. What is a few tensors is
`MARK`, XXH3 of 128 bits and safetensors; anything else, and every file of 0.1, is SHA-256 and what
torch.save writes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import safetensors.torch
import torch
import xxhash

from vlbench.cache import ABOUT
from vlbench.errors import OutputError
from vlbench.files import take_lock, write_whole

if TYPE_CHECKING:  # imported by the first lock
    from filelock import BaseFileLock

CHECKSUM_BYTES = 32

# How the file of tensors begins, and the types of numbers that it may hold.
MARK = b"vlbench tensors\n"
PLAIN = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool)

# Bytes of a tensor that are looked for in its file, before all are compared.
PROBED = 4096


class StoredValue(NamedTuple):
    """A value, its file and the file's version, and the byte where a tensor's numbers begin."""

    value: Any
    file: Path
    version: tuple[int, int]
    start: int


class Store:
    """A folder of values under keys, which several runs may share.

    A value is a mapping of tensors and plain values, nested in lists. A file that is cut short
    or altered reads as absent, so what it held is computed again.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._about: dict[str, Mapping[str, Any]] = {}

    def describe(self, key: str, about: Mapping[str, Any]) -> None:
        """Say of what a key's values are, for `vlbench cache`; the date is that of the last use."""
        if key in self._about:
            return
        self._about[key] = about
        with suppress(OSError):  # nothing is stored yet, or it lies in a folder of others
            os.utime(self._file(key, "").parent / ABOUT)

    def load(self, key: str, part: str) -> Any:
        """Return the value, or None if it is absent or damaged."""
        stored = self._read(key, part)
        return None if stored is None else stored[0]

    def locate(self, key: str, part: str, name: str) -> StoredValue | None:
        """Return where a tensor's numbers lie in its file; None if it is absent or damaged."""
        file = self._file(key, part)
        # Before it is read: what is written in between is then another version.
        version = version_of(file.stat()) if file.exists() else (0, 0)
        stored = self._read(key, part)
        if stored is None:
            return None
        value, body = stored
        numbers = value[name].numpy().data.cast("B")
        start = body.find(numbers[:PROBED])
        while start >= 0 and body[start : start + len(numbers)] != numbers:
            start = body.find(numbers[:PROBED], start + 1)
        if start < 0:
            raise ValueError(f"{part} has no tensor {name} in one piece")
        return StoredValue(value, file, version, CHECKSUM_BYTES + start)

    def _read(self, key: str, part: str) -> tuple[Any, bytes] | None:
        """Return the value and the body of its file; None where it is absent or damaged."""
        try:
            with self._file(key, part).open("rb", buffering=0) as stream:
                checksum, body = stream.read(CHECKSUM_BYTES), stream.read()
        except OSError:  # nothing, or a folder or a link in its place
            return None
        # Files of 1.0 have the checksum of their body alone.
        for place in (_place(key, part), b""):
            if checksum == _of_tensors(place, body):
                return safetensors.torch.load(body), body
            if checksum == _of_others(place, body):
                return torch.load(io.BytesIO(body), weights_only=True), body
        return None

    def save(self, key: str, part: str, value: Mapping[str, Any]) -> None:
        """Write the value.

        Raises TypeError for what is not made of tensors and plain values, OutputError where the
        disk does not take it.
        """
        file = self._file(key, part)
        # Its checksum tells where a machine that lost its power left it damaged.
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        write_whole(file, *_parts(_place(key, part), copy_views(value)), lasting=False)
        if about := self._about.get(key):
            beside = file.with_name(ABOUT)
            if not beside.exists():
                write_whole(beside, json.dumps(about).encode())

    def drop(self, key: str, part: str) -> None:
        """Remove the value, if it is there."""
        self._file(key, part).unlink(missing_ok=True)

    def lock(self, key: str, part: str, *, seconds: float = 0) -> Callable[[], None] | None:
        """Lock a value for computing; return a function that unlocks it.

        Returns None if another run holds the lock for all of `seconds`. A run that ends, however it
        ends, holds no lock. Raises OutputError if the lock cannot be written.
        """
        file = self._file(key, part).with_suffix(".lock")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock = take_lock(file, seconds=seconds)
        except OSError as error:
            raise OutputError(f"cannot write {file}: {error.strerror}") from error
        return partial(_unlock, file, lock) if lock else None

    @contextmanager
    def locked(self, key: str, part: str, *, seconds: float) -> Iterator[None]:
        """Hold the lock of a value; if another run holds it for so long, go on without."""
        unlock = self.lock(key, part, seconds=seconds)
        try:
            yield
        finally:
            if unlock:
                unlock()

    def _file(self, key: str, part: str) -> Path:
        name = key.removeprefix("sha256:")
        return self.root / name[:2] / name / f"{part}.pt"


def _place(key: str, part: str) -> bytes:
    """Return what the checksum of a file counts with its body: one moved elsewhere is damaged."""
    return f"{key} {part} ".encode()


def _parts(place: bytes, value: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the checksum and the body of a file."""
    parts = list(value.values())
    # The library refuses tensors that share their memory.
    if all(isinstance(one, torch.Tensor) and one.dtype in PLAIN for one in parts) and len(
        {one.data_ptr() for one in parts}
    ) == len(parts):
        body = safetensors.torch.save({name: one.contiguous() for name, one in value.items()})
        return _of_tensors(place, body), body
    buffer = io.BytesIO()
    torch.save(value, buffer)
    body = buffer.getvalue()
    return _of_others(place, body), body


def _of_tensors(place: bytes, body: bytes) -> bytes:
    hasher = xxhash.xxh3_128(place)
    hasher.update(body)
    return MARK + hasher.digest()


def _of_others(place: bytes, body: bytes) -> bytes:
    hasher = hashlib.sha256(place)
    hasher.update(body)
    return hasher.digest()


def version_of(stat: os.stat_result) -> tuple[int, int]:
    """Return the inode and date of a file, which a replacement does not share."""
    return stat.st_ino, stat.st_mtime_ns


def _unlock(file: Path, lock: BaseFileLock) -> None:
    file.unlink(missing_ok=True)
    lock.release()


def copy_views(value: Any) -> Any:
    """Return a value whose tensors own their memory: a view would be stored with all that it views.

    Raises TypeError for what is not made of tensors and plain values.
    """
    if isinstance(value, torch.Tensor):
        whole = value.untyped_storage().nbytes() == value.nbytes
        return value if whole else value.clone()
    if type(value) is dict:
        return {key: copy_views(item) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(copy_views(item) for item in value)
    if value is None or type(value) in {bool, int, float, str, bytes}:
        return value
    raise TypeError(f"a {type(value).__name__} cannot be stored, only tensors and plain values")
