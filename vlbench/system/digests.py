"""Digests: identify content, whatever file, path or date it comes from."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from vlbench.system.files import walk_links

# The file in which digests of files are remembered; None: they are not remembered.
memory: ContextVar[Path | None] = ContextVar("memory", default=None)

PLAIN = {bool, int, float, str, type(None)}

# A file changed this recently may change again with the same time stamp.
SETTLED_NS = 2_000_000_000

# Characters of the checksum before a remembered digest.
SEAL = 8

# Made once: json.dumps makes an encoder for each value.
_ENCODER = json.JSONEncoder(sort_keys=True, allow_nan=True, separators=(",", ":"))

# Keys in one query; SQLite before 3.32 takes 999.
ASKED = 500


def digest(value: Any) -> str:
    """Return `sha256:...` of plain values, arrays and tensors, nested in lists and mappings.

    For a path, the content of its file or folder is digested. Raises TypeError, with the type's
    name, for any other value: a value that cannot be digested must not count as known.
    """
    try:
        text = _ENCODER.encode(_plain(value))
    except RecursionError as error:
        raise TypeError(f"cannot digest a {type(value).__name__} that contains itself") from error
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def file_digests(
    paths: Sequence[Path | str], how: str, compute: Callable[[Path], str] | None = None
) -> list[str]:
    """Return the digest of each file, remembered by device, inode, size, mtime and ctime.

    A file rewritten with the same size and date, as by `rsync -t`, has another ctime. `how` names
    what `compute` digests (default: the bytes), since a file may have several digests.
    """
    now = time.time_ns()
    stats = [os.stat(path) for path in paths]  # noqa: PTH116 - of a million paths, in half the time
    keys = [
        f"({s.st_dev}, {s.st_ino}, {s.st_size}, {s.st_mtime_ns}, {s.st_ctime_ns}, {how!r})"
        for s in stats
    ]
    digests = _recall(keys)
    fresh = {
        key: (path, max(stat.st_mtime_ns, stat.st_ctime_ns))
        for key, path, stat in zip(keys, paths, stats, strict=True)
        if key not in digests
    }
    computed = {key: (compute or bytes_digest)(Path(path)) for key, (path, _) in fresh.items()}
    _remember({key: d for key, d in computed.items() if now - fresh[key][1] > SETTLED_NS})
    digests |= computed
    return [digests[key] for key in keys]


@contextmanager
def remembered_in(file: Path) -> Iterator[None]:
    """Remember digests of files in a database while this context lasts."""
    token = memory.set(file)
    try:
        yield
    finally:
        memory.reset(token)


def bytes_digest(path: Path) -> str:
    """Return the sha256 of a file's bytes, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def path_digest(path: Path) -> str:
    """Return the digest of a file, or of all files of a folder with their relative names."""
    if not path.is_dir():
        return file_digests([path], "bytes")[0]
    walk = walk_links(path)
    files = sorted(Path(folder, name) for folder, _, names in walk for name in names)
    names = [p.relative_to(path).as_posix() for p in files]
    return digest(dict(zip(names, file_digests(files, "bytes"), strict=True)))


def _plain(value: Any) -> Any:
    if type(value) in PLAIN:  # fast path for the texts of many items
        return value
    if isinstance(value, Mapping):
        plain = {str(k): _plain(v) for k, v in value.items()}
        if len(plain) < len(value):
            raise TypeError(f"cannot digest keys that are equal as texts: {list(value)}")
        return plain
    if isinstance(value, list | tuple | range):
        # Long lists mostly contain plain values, whose types are checked much faster at once.
        return list(value) if set(map(type, value)) <= PLAIN else [_plain(v) for v in value]
    if isinstance(value, Path):
        return {"content": path_digest(value)}
    torch = sys.modules.get("torch")  # if it is not loaded, no value is a tensor
    if isinstance(value, np.ndarray) or (torch and isinstance(value, torch.Tensor)):
        return {"array": _array(value)}
    scalar = value.item() if isinstance(value, np.generic) else value
    if scalar is None or isinstance(scalar, bool | int | float | str):
        return scalar
    message = f"cannot digest a {type(value).__module__}.{type(value).__qualname__}"
    raise TypeError(message)


def _array(value: Any) -> str:
    array = value if isinstance(value, np.ndarray) else _as_array(value)
    if array.dtype.hasobject:
        message = "cannot digest an array of objects"
        raise TypeError(message)
    head = f"{array.dtype.descr}{array.shape}".encode()
    hasher = hashlib.sha256(head)
    # Read in place: features of a large data set do not fit into memory twice.
    hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def _as_array(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor as an array; bfloat16, which NumPy does not have, as the equal float32."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    numbers = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    return np.asarray(numbers.numpy())


def _recall(keys: Sequence[str]) -> dict[str, str]:
    """Return the remembered digests, by key."""
    file = memory.get()
    if file is None or not file.is_file():
        return {}
    digests: dict[str, str] = {}
    # A broken or unreachable database costs time, but does not stop the run.
    with suppress(sqlite3.Error), closing(_open(file)) as base:
        for start in range(0, len(keys), ASKED):
            part = keys[start : start + ASKED]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, digest FROM digests WHERE key IN ({marks})"  # noqa: S608 - marks
            for key, sealed in base.execute(query, part):
                value = sealed[SEAL:] if isinstance(sealed, str) else ""
                # A damaged value, or a value of a release without checksums, is computed again.
                if sealed == _seal(key, value):
                    digests[key] = value
    return digests


def _remember(fresh: Mapping[str, str]) -> None:
    file = memory.get()
    if file is None or not fresh:
        return
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(sqlite3.Error), closing(_open(file)) as base, base:
        sealed = [(key, _seal(key, value)) for key, value in fresh.items()]
        base.executemany("INSERT OR REPLACE INTO digests VALUES (?, ?)", sealed)


def _seal(key: str, value: str) -> str:
    """Return the stored form of a digest: after a checksum of `SEAL` characters."""
    return f"{zlib.crc32(f'{key} {value}'.encode()):08x}{value}"


def _open(file: Path) -> sqlite3.Connection:
    base = sqlite3.connect(file, timeout=60)
    try:
        base.execute("CREATE TABLE IF NOT EXISTS digests (key TEXT PRIMARY KEY, digest TEXT)")
    except sqlite3.Error:
        base.close()
        raise
    return base
