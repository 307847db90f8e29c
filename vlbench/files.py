"""Files written whole or not at all, locks, JSON read as dataclasses, and the cache folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_origin, get_type_hints

from vlbench.errors import OutputError, SpecError, UnknownNameError

if TYPE_CHECKING:  # importing it takes a fifth of the time of `vlbench --help`
    from filelock import BaseFileLock

# Where a value stands in a file: ("rows", 3, "scores", 0, "ci95").
Key: TypeAlias = tuple[str | int, ...]

# What errors call the types of JSON.
WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
    Mapping: "an object",
    Sequence: "a list",
    tuple: "two numbers",
    dict: "an object",
    list: "a list",
}

# The types that objects and lists are read as where any JSON is allowed.
PLAIN: Mapping[Any, Any] = {dict: Mapping[str, Any], list: Sequence[Any]}

# What models may be called.
LONGEST_NAME = 200
WANTED_NAME = f"is no name for a model; wanted are 1 to {LONGEST_NAME} printable characters"

# The longest key allowed: Python's recursion limit would stop the copying of deeper JSON.
DEEPEST = 50


# What a file system without locks answers; there, a lock lapses when its holder has been silent for
# so many seconds.
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK})
LAPSE = 60.0

# How the names of files begin that are being written, and that killed runs leave behind.
PART = ".part-"


def default_cache() -> Path:
    """Return where features and digests are kept unless the user says otherwise.

    Raises UnknownNameError for a user without a home.
    """
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise UnknownNameError(
            "no home for the cache; pass --cache-dir DIR or --no-cache"
        ) from error
    return Path(home) / "vlbench"


def write_whole(file: Path, content: bytes) -> None:
    """Write a file that appears complete or not at all, parents included.

    Raises OutputError, naming the file, where the disk or its rights do not allow it.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=PART, dir=file.parent)
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(content)
            part.flush()
            os.fsync(part.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}") from error
    finally:
        Path(name).unlink(missing_ok=True)


def take_lock(file: Path, *, seconds: float = -1) -> BaseFileLock | None:
    """Return the lock of a file, held, or None where others hold it for so long; -1: no limit.

    It is free again when its holder releases it or ends, however it ends. Raises OSError where the
    file cannot be made.
    """
    from filelock import FileLock, SoftFileLease, Timeout  # noqa: PLC0415 - see above

    lock: BaseFileLock = FileLock(file, fallback_to_soft=False, thread_local=False)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        return None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        lock = SoftFileLease(f"{file}.lease", lease_duration=LAPSE, thread_local=False)
        with suppress(Timeout):
            lock.acquire(timeout=seconds)
    return lock if lock.is_locked else None


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Hold the lock of a folder. Raises OutputError, naming `what` is written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder / ".lock")
    except OSError as error:
        raise OutputError(f"cannot write {what} to {folder}: {error.strerror}") from error
    assert lock
    try:
        yield
    finally:
        lock.release()


def safe_name(name: str) -> str:
    """Return a name that is safe for a file; a changed name ends in a digest of the original."""
    safe = re.sub(r"[^\w.=,\[\]-]", "_", name).lstrip(".")
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_model_name(name: str) -> bool:
    """Return whether a text can name a model: 1 to 200 printable characters."""
    return name.isprintable() and 0 < len(name) <= LONGEST_NAME


def is_file_name(name: str) -> bool:
    """Return whether a text can be a file's name in any folder, and never leads out of it."""
    return name.isprintable() and bool(name) and name[0] != "." and not set(name) & set("/\\")


def file_name(name: str) -> str:
    """Return the name of what has a file of its own. Raises SpecError for one that is no file's."""
    if not is_file_name(name):
        raise SpecError(f"{name!r} is no file's name; it would lead out of the folder")
    return name


def read_as(kind: Any, value: Any, key: Key) -> Any:
    """Return a JSON value as a value of the type `kind`: a dataclass or a field's annotation.

    Raises SpecError, naming the key, where the value has another type, where an object lacks a key
    or has an unknown one, and for numbers and texts that JSON in UTF-8 cannot hold.
    """
    if kind is Any and len(key) <= DEEPEST:
        kind = PLAIN.get(type(value), type(value))
    if _is(kind, value):
        return value
    origin = get_origin(kind)
    if origin is UnionType:
        return _read_union(get_args(kind), value, key)
    if origin is not None:
        return _read_several(origin, get_args(kind), value, key)
    if is_dataclass(kind):
        return read_object(kind, value, key, given={})
    raise misfit(WORDS.get(kind, "something less deeply nested"), value, key)


def misfit(wanted: str, found: Any, key: Key) -> SpecError:
    """Return the error for a JSON value that does not fit; `wanted` says what would fit."""
    if isinstance(found, dict | list):
        shown = WORDS[type(found)]
    else:
        shown = repr(found) if isinstance(found, str) else json.dumps(found)
    return SpecError(f"{spelled(key)}: wanted {wanted}, not {shown:.60}")


def read_object(kind: Any, value: Any, key: Key, *, given: Mapping[str, Any]) -> Any:
    """Return a JSON object as a dataclass; the fields in `given` do not come from the object."""
    if not isinstance(value, dict):
        raise misfit("an object", value, key)
    hints = {name: hint for name, hint in _hints(kind).items() if name not in given}
    for name in value:
        if name not in hints:
            raise SpecError(f"{spelled((*key, name))}: is unknown; there are {', '.join(hints)}")
    for one in fields(kind):
        optional = one.default is not MISSING or one.default_factory is not MISSING
        if one.name in hints and one.name not in value and not optional:
            raise SpecError(f"{spelled((*key, one.name))}: is absent")
    return kind(**given, **{k: read_as(hints[k], v, (*key, k)) for k, v in value.items()})


def _read_union(kinds: Sequence[Any], value: Any, key: Key) -> Any:
    for kind in kinds:
        with suppress(SpecError):
            return read_as(kind, value, key)
    words = (WORDS[get_origin(kind) or kind] for kind in kinds)
    raise misfit(" or ".join(words), value, key)


def _read_several(origin: Any, kinds: Sequence[Any], value: Any, key: Key) -> Any:
    """Return a JSON object as a mapping, or a JSON list as a list or as a tuple of known length."""
    if origin is Mapping and isinstance(value, dict):
        names = [read_as(str, name, (*key, name)) for name in value]
        return {name: read_as(kinds[1], value[name], (*key, name)) for name in names}
    if origin is Sequence and isinstance(value, list):
        return [read_as(kinds[0], part, (*key, i)) for i, part in enumerate(value)]
    if origin is tuple and isinstance(value, list) and len(value) == len(kinds):
        return tuple(read_as(kind, part, key) for kind, part in zip(kinds, value, strict=True))
    raise misfit(WORDS[origin], value, key)


def _is(kind: Any, value: Any) -> bool:
    """Return whether a text, number, bool or null is of a type, and can be written again."""
    if type(value) is not kind and (kind, type(value)) != (float, int):
        return False
    if isinstance(value, str):
        return value.isascii() or value.encode("utf-8", "ignore").decode() == value
    return value is None or abs(value) <= sys.float_info.max


def spelled(key: Key) -> str:
    """Return a key as errors name it: `rows[3].scores[0].ci95`."""
    names = (
        f".{k if k.isprintable() else ascii(k)}" if isinstance(k, str) else f"[{k}]" for k in key
    )
    return "".join(names).removeprefix(".")


_hints = cache(get_type_hints)
