"""Files written whole or not at all, locks, names, cells of CSV, and the cache folder."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlbench.errors import OutputError, SpecError, UnknownNameError, printed

if TYPE_CHECKING:  # importing it takes a fifth of the time of `vlbench --help`
    from filelock import BaseFileLock

# What models may be called.
LONGEST_NAME = 200
WANTED_NAME = f"is not a name for a model; use 1 to {LONGEST_NAME} printable characters"

# What a file system without locks answers; there, a lock lapses when its holder has been silent for
# LAPSE seconds.
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK})
LAPSE = 60.0

# Bytes of a file that are read at once, by what it is; a larger one is refused before it is read.
MOST_YAML = 1 << 20  # forty times models.yaml; PyYAML takes hundreds of bytes for each
MOST_BOARD = 64 << 20  # 700 rows of the longest kind, which has 90 kB
MOST_ARTIFACT = 256 << 20  # ten million items take a third of it
MOST_CONFIG = 8 << 20  # ten times timm's, which names and describes 21,841 classes
MOST_TEXT = 64 << 20  # names, words and captions, one after the other
MOST_IMAGE = 256 << 20  # as many pixels as an image may have, not compressed
MOST_ANNOTATIONS = 1 << 30  # COCO's instances of train2014 have 450 MB

# How the names of files begin that are being written, and that killed runs leave behind.
PART = ".part-"

# How old a part is before no run can be writing it any more, in seconds.
DAY = 86_400.0

# A store may hold a million files, so that a folder is swept once a day.
MARK = ".swept"

# How the names of temporary folders begin, the file in each whose lock its process holds, and how
# many seconds old that is before another process may try the lock.
TEMPORARY = "vlbench-"
IN_USE = ".vlbench-in-use"
SETTLED = 60.0


def default_cache() -> Path:
    """Return where features and digests are kept unless an option says otherwise.

    That is $VLBENCH_CACHE_DIR, or a folder below $XDG_CACHE_HOME or the user's home. Raises
    UnknownNameError for a user without a home.
    """
    if named := os.environ.get("VLBENCH_CACHE_DIR"):
        return Path(named)
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise UnknownNameError(
            "there is no home folder for the cache; pass --cache-dir DIR or --no-cache"
        ) from error
    return Path(home) / "vlbench"


def require_at_most(file: Path | int, most: int) -> int:
    """Return how many bytes a file, or an open one by its descriptor, has; `most` for a pipe.

    Raises OSError where it has more.
    """
    status = os.stat(file)  # noqa: PTH116 - of a descriptor, too
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"it has {status.st_size} bytes; at most {most} are read")
    return status.st_size if stat.S_ISREG(status.st_mode) else most


def read_bytes(file: Path, most: int) -> bytes:
    """Return the content of a file. Raises OSError, also for one of more than `most` bytes."""
    with file.open("rb") as stream:
        # Of what was opened: another process may have put a new file in its place since.
        size = require_at_most(stream.fileno(), most)
        content = stream.read(size + 1)
    if len(content) > size:
        raise OSError(errno.EFBIG, f"it grows or is endless; at most {most} bytes are read")
    return content


def read_text(file: Path, most: int) -> str:
    """Return the text of a file in UTF-8, without a byte order mark.

    Raises as `read_bytes`, and UnicodeDecodeError.
    """
    return read_bytes(file, most).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def write_whole(file: Path, *parts: bytes, lasting: bool = True) -> None:
    """Write a file of these parts that appears complete or not at all, its folders included.

    One that need not be `lasting` may be damaged where the machine, not the process, stops. Raises
    OutputError, naming the file, where the disk or its rights do not allow it.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=PART, dir=file.parent)
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(parts)
            stream.flush()
            if lasting:
                os.fsync(handle)
            os.fchmod(handle, 0o644)
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
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that is gone afterwards; those that killed processes left are removed first.

    Raises OSError where it cannot be made.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*/{IN_USE}"):
        _remove_unused(left)
    folder = tempfile.TemporaryDirectory(prefix=TEMPORARY)
    lock = take_lock(Path(folder.name, IN_USE))
    assert lock
    try:
        yield Path(folder.name)
    finally:
        # While the lock is held, so that no other process removes it at the same time.
        folder.cleanup()
        lock.release()


def _remove_unused(mark: Path) -> None:
    """Remove the folder of a mark whose lock no process holds; another user's is left alone."""
    with suppress(OSError):  # another process may be removing it, too
        status = mark.lstat()
        settled = time.time() - status.st_mtime > SETTLED
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
        if settled and is_own and (lock := take_lock(mark, seconds=0)):
            shutil.rmtree(mark.parent, ignore_errors=True)
            lock.release()


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
        raise SpecError(f"{name!r} is not a file name; it would be outside the folder")
    return name


# The last four are the same signs in full width.
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def harmless(value: Any) -> Any:
    """Return a cell of CSV; a text that a spreadsheet takes for a formula gets an apostrophe first.

    Such a text begins with =, +, -, @, a tab or a line break; OWASP advises the apostrophe. Numbers
    are left alone.
    """
    if not isinstance(value, str):
        return value
    return "'" + printed(value) if value.startswith(FORMULA) else printed(value)


def sweep(folder: Path) -> None:
    """Remove half-written files of killed runs, more than a day old, below a folder."""
    if not folder.is_dir() or _age(folder / MARK) < DAY:
        return
    with suppress(OSError):  # somebody else's folder may be read but not written
        (folder / MARK).touch()
        for part in folder.rglob(f"{PART}*"):
            if _age(part) > DAY:
                part.unlink(missing_ok=True)


def _age(file: Path) -> float:
    """Return the age of a file in seconds; infinite if it does not exist."""
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return float("inf")
