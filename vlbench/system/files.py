"""Files: written whole or not at all, locks, names, CSV cells, and the cache folder."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlbench.errors import DataError, OutputError, SpecError, UnknownNameError, printed

if TYPE_CHECKING:  # importing it takes a fifth of the time of `vlbench --help`
    from filelock import BaseFileLock

# The allowed names of models.
LONGEST_NAME = 200
WANTED_NAME = f"is not a name for a model; use 1 to {LONGEST_NAME} printable characters"

# Errors of a file system without locks; there, a lock expires if its holder has not renewed it for
# LAPSE seconds.
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK})
LAPSE = 60.0

# The most bytes of a file that is read at once, by kind; a larger file is refused before reading.
MOST_YAML = 1 << 20  # forty times models.yaml; PyYAML takes hundreds of bytes for each
MOST_BOARD = 64 << 20  # 700 rows of the longest kind, which has 90 kB
MOST_ARTIFACT = 256 << 20  # ten million items take a third of it
MOST_CONFIG = 8 << 20  # ten times timm's, which names and describes 21,841 classes
MOST_TEXT = 64 << 20  # names, words and captions in one text
MOST_IMAGE = 256 << 20  # the most pixels of an image, uncompressed
MOST_ANNOTATIONS = 1 << 30  # COCO's instances of train2014 have 450 MB

# Prefix of files being written, which killed runs leave behind.
PART = ".part-"

# The age in seconds at which no run can still be writing a part.
DAY = 86_400.0

# A store may have a million files, so a folder is swept only once a day.
MARK = ".swept"

# Prefix of temporary folders, the file in each that its process locks, and the age in seconds of
# that file before another process may try the lock.
TEMPORARY = "vlbench-"
IN_USE = ".vlbench-in-use"
SETTLED = 60.0


def default_cache() -> Path:
    """Return the default folder for features and digests.

    It is $VLBENCH_CACHE_DIR, or a folder below $XDG_CACHE_HOME or the user's home. Raises
    UnknownNameError for a user without a home.
    """
    if folder := os.environ.get("VLBENCH_CACHE_DIR"):
        return Path(folder)
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise UnknownNameError(
            "there is no home folder for the cache; pass --cache-dir DIR or --no-cache"
        ) from error
    return Path(home) / "vlbench"


def require_at_most(file: Path | int, most: int) -> int:
    """Return the size in bytes of a file, or of an open file by descriptor; `most` for a pipe.

    Raises OSError if it is larger than `most`.
    """
    status = os.stat(file)  # noqa: PTH116 - of a descriptor, too
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"it has {status.st_size} bytes; at most {most} are read")
    return status.st_size if stat.S_ISREG(status.st_mode) else most


def read_bytes(file: Path, most: int) -> bytes:
    """Return the content of a file. Raises OSError, also for a file of more than `most` bytes."""
    with file.open("rb") as stream:
        # The size of the opened file: another process may have replaced the file since.
        size = require_at_most(stream.fileno(), most)
        content = stream.read(size + 1)
    if len(content) > size:
        raise OSError(errno.EFBIG, f"it grows or is endless; at most {most} bytes are read")
    return content


def read_text(file: Path, most: int) -> str:
    """Return the text of a file in UTF-8, without a byte order mark.

    Raises what `read_bytes` raises, and UnicodeDecodeError.
    """
    return read_bytes(file, most).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def write_whole(file: Path, *parts: bytes, lasting: bool = True) -> None:
    """Write a file of these parts that appears complete or not at all; create its folders.

    If it need not be `lasting`, it may be damaged if the machine (not the process) stops. Raises
    OutputError, naming the file, if the disk or permissions do not allow it.
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
    """Return the acquired lock of a file; None if others hold it for `seconds`; -1: no limit.

    It is released when its holder releases it or ends, however it ends. Raises OSError if the file
    cannot be created.
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
    """Yield a temporary folder, removed at the end; first remove folders of killed processes.

    Raises OSError if it cannot be created.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*/{IN_USE}"):
        _remove_unused(left)
    folder = tempfile.TemporaryDirectory(prefix=TEMPORARY)
    lock = take_lock(Path(folder.name, IN_USE))
    assert lock
    try:
        yield Path(folder.name)
    finally:
        # Removed while locked, so no other process removes it at the same time.
        folder.cleanup()
        lock.release()


def _remove_unused(mark: Path) -> None:
    """Remove the folder of a mark that no process has locked, unless it is another user's."""
    with suppress(OSError):  # another process may be removing it at the same time
        status = mark.lstat()
        settled = time.time() - status.st_mtime > SETTLED
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
        if settled and is_own and (lock := take_lock(mark, seconds=0)):
            shutil.rmtree(mark.parent, ignore_errors=True)
            lock.release()


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Hold the lock of a folder. Raises OutputError, which states that `what` is written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder / ".lock")
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror
        raise OutputError(f"cannot write {what} to {folder}: {why}") from error
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
    """Return a name that is used as a file name. Raises SpecError if it cannot be one."""
    if not is_file_name(name):
        raise SpecError(f"{name!r} is not a file name; it would be outside the folder")
    return name


# The last four are the same characters in full width.
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def harmless(value: Any) -> Any:
    """Return a cell of CSV; a text that a spreadsheet would read as a formula gets an apostrophe.

    Such a text begins with =, +, -, @, a tab or a line break; OWASP advises the apostrophe. Numbers
    are not changed.
    """
    if not isinstance(value, str):
        return value
    return "'" + printed(value) if value.startswith(FORMULA) else printed(value)


def sweep(folder: Path) -> None:
    """Remove half-written files of killed runs below a folder if they are more than a day old."""
    if not folder.is_dir() or _age(folder / MARK) < DAY:
        return
    with suppress(OSError):  # another user's folder may be readable but not writable
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


def walk_links(
    root: Path, folder: str = "", onerror: Callable[[OSError], None] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield what os.walk yields of a folder in a root, also of the folders that are linked there.

    Raises DataError for a link to a folder that contains it, be it through another link.
    """
    top, reals = str(root / folder), dict[str, str]()
    for place, folders, files in os.walk(top, onerror=onerror, followlinks=True):
        reals[place], parent = os.path.realpath(place), place
        while parent != top:
            parent = os.path.dirname(parent)  # noqa: PTH120 - a Path for each folder is slow
            if f"{reals[parent]}/".startswith(f"{reals[place]}/"):
                link = Path(place).relative_to(root).as_posix()
                raise DataError(f"'{link}' links to a folder that contains it; remove the link")
        yield place, folders, files
