"""Feature store: checksummed files keyed by digest, written completely or not at all.

A file consists of a 32-byte checksum, of its key, part and body, and the body. For a few plain
tensors the checksum is `MARK` and a 128-bit XXH3, and the body is safetensors; for other values,
and in every file of version 0.1, they are SHA-256 and the output of torch.save.
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

from vlbench.errors import OutputError
from vlbench.system.cache import ABOUT
from vlbench.system.files import take_lock, write_whole

if TYPE_CHECKING:  # imported by the first lock
    from filelock import BaseFileLock

CHECKSUM_BYTES = 32

# The beginning of a file of tensors, and the dtypes that it may contain.
MARK = b"vlbench tensors\n"
PLAIN = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool)

# A tensor is located in its file by this number of bytes before all are compared.
PROBED = 4096


class StoredValue(NamedTuple):
    """A value, its file and the file's version, and the offset of a tensor's numbers."""

    value: Any
    file: Path
    version: tuple[int, int]
    start: int


class Store:
    """A folder of values under keys, which several runs may share.

    A value is a mapping of tensors and plain values, nested in lists. A file that is cut short
    or altered counts as absent, so its value is computed again.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._about: dict[str, Mapping[str, Any]] = {}

    def describe(self, key: str, about: Mapping[str, Any]) -> None:
        """Record what a key's values are, for `vlbench cache`; the date is the last use's."""
        if key in self._about:
            return
        self._about[key] = about
        with suppress(OSError):  # nothing is stored yet, or it is in another user's folder
            os.utime(self._file(key, "").parent / ABOUT)

    def load(self, key: str, part: str) -> Any:
        """Return the value, or None if it is absent or damaged."""
        stored = self._read(key, part)
        return None if stored is None else stored[0]

    def locate(self, key: str, part: str, name: str) -> StoredValue | None:
        """Return the position of a tensor's numbers in its file; None if absent or damaged."""
        file = self._file(key, part)
        # Before reading: if the file is written in between, the versions differ.
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
        """Return the value and the body of its file; None if it is absent or damaged."""
        try:
            with self._file(key, part).open("rb", buffering=0) as stream:
                checksum, body = stream.read(CHECKSUM_BYTES), stream.read()
        except OSError:  # nothing, or a folder or a link in its place
            return None
        # In files of version 1.0 the checksum covers only the body.
        for place in (_place(key, part), b""):
            if checksum == _of_tensors(place, body):
                return safetensors.torch.load(body), body
            if checksum == _of_others(place, body):
                return torch.load(io.BytesIO(body), weights_only=True), body
        return None

    def save(self, key: str, part: str, value: Mapping[str, Any]) -> None:
        """Write the value.

        Raises TypeError unless it consists of tensors and plain values, and OutputError if the disk
        refuses it.
        """
        file = self._file(key, part)
        # No flush to disk: the checksum reveals a file that a power loss has damaged.
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        write_whole(file, *_parts(_place(key, part), copy_views(value)), lasting=False)
        if about := self._about.get(key):
            beside = file.with_name(ABOUT)
            if not beside.exists():
                write_whole(beside, json.dumps(about).encode())

    def drop(self, key: str, part: str) -> None:
        """Remove the value, if it exists."""
        self._file(key, part).unlink(missing_ok=True)

    def lock(self, key: str, part: str, *, seconds: float = 0) -> Callable[[], None] | None:
        """Lock a value for computing; return a function that unlocks it.

        Returns None if another run holds the lock for all of `seconds`. The lock is released when
        its run ends, however it ends. Raises OutputError if the lock cannot be written.
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
        """Lock a value inside the block; after `seconds` of another run's lock, go on without."""
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
    """Return the place that the checksum covers: a file moved elsewhere counts as damaged."""
    return f"{key} {part} ".encode()


def _parts(place: bytes, value: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the checksum and the body of a file."""
    parts = list(value.values())
    # safetensors refuses tensors that share memory.
    if all(isinstance(part, torch.Tensor) and part.dtype in PLAIN for part in parts) and len(
        {part.data_ptr() for part in parts}
    ) == len(parts):
        # It stores the memory of a lazily negated tensor, not its values.
        plain = {name: tensor.resolve_neg().contiguous() for name, tensor in value.items()}
        body = safetensors.torch.save(plain)
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
    """Return the inode and date of a file, which differ for a replacement."""
    return stat.st_ino, stat.st_mtime_ns


def _unlock(file: Path, lock: BaseFileLock) -> None:
    file.unlink(missing_ok=True)
    lock.release()


def copy_views(value: Any) -> Any:
    """Return a value whose tensors own their memory: torch stores a view with its whole base.

    Negative and conjugate views, whose memory differs from their values, are copied, too.
    Raises TypeError unless the value consists of tensors and plain values.
    """
    if isinstance(value, torch.Tensor):
        value = value.resolve_conj().resolve_neg()
        whole = value.untyped_storage().nbytes() == value.nbytes
        return value if whole else value.clone()
    if type(value) is dict:
        return {key: copy_views(item) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(copy_views(item) for item in value)
    if value is None or type(value) in {bool, int, float, str, bytes}:
        return value
    raise TypeError(f"a {type(value).__name__} cannot be stored, only tensors and plain values")
