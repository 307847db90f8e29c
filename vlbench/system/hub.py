"""The hub of weights and data: whether it can be reached, and whether downloads are undamaged.

A single connection is tried, since the libraries retry for 23 to 46 s before they give up. They
read the environment variables that prevent this when they are imported, so a run sets these first.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from vlbench.errors import VlbenchError
from vlbench.system.digests import bytes_digest, file_digests

VARIABLE = "HF_HUB_OFFLINE"
VARIABLES = (VARIABLE, "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
# Modules that keep the value of the first variable from the time of their import.
READERS = ("huggingface_hub.constants", "datasets.config")
# Also set if a failed connection, not the user, made this process offline.
UNREACHED = "VLBENCH_HUB_UNREACHED"
ENDPOINT = "https://huggingface.co"

# Errors if a file cannot grow: the disk is full, the user's quota is used up, or the file is too
# large.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

# A file downloaded within this many seconds may be unchecked, if its run was killed.
UNCHECKED = 86_400.0

# The hub names small files by git's SHA-1 and others by SHA-256. Mirrors may use any other name.
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)


@contextmanager
def restored() -> Iterator[None]:
    """Restore, when this context ends, the variables that make this process offline."""
    names = (*VARIABLES, UNREACHED)
    before = {name: os.environ.get(name) for name in names}
    read = {name: sys.modules[name].HF_HUB_OFFLINE for name in READERS if name in sys.modules}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})
        for name in READERS:
            if module := sys.modules.get(name):
                vars(module)[VARIABLE] = read.get(name, is_offline())


def settle(*, offline: bool = False) -> bool:
    """Return whether this process is offline; if so, set the libraries' environment variables.

    `offline` decides first, then HF_HUB_OFFLINE, whatever its value. Only if neither is set, a
    connection is tried, once.
    """
    if not offline and VARIABLE not in os.environ and not reachable():
        os.environ[UNREACHED] = "1"
        offline = True
    if offline:
        os.environ.update(dict.fromkeys(VARIABLES, "1"))
    return is_offline()


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE is set, as the libraries read it."""
    return os.environ.get(VARIABLE, "").upper() in {"1", "ON", "YES", "TRUE"}


def why_offline() -> str:
    """Return why this process is offline, in words."""
    return "the hub cannot be reached" if UNREACHED in os.environ else "this run is offline"


def reachable(*, seconds: float = 3.0) -> bool:
    """Return whether HF_ENDPOINT, or the proxy before it, accepts a connection in time."""
    connected = threading.Event()
    # In a thread, since a name lookup has no time limit, and each of many addresses has a separate
    # limit.
    attempt = threading.Thread(target=_connect, args=(connected, seconds), daemon=True)
    attempt.start()
    attempt.join(seconds)
    return connected.is_set()


def _connect(connected: threading.Event, seconds: float) -> None:
    with suppress(OSError), socket.create_connection(_address(), timeout=seconds):
        connected.set()


def _address() -> tuple[str, int]:
    """Return the host and port to connect to."""
    url = urlsplit(os.environ.get("HF_ENDPOINT") or ENDPOINT)
    proxy = urllib.request.getproxies().get(url.scheme)
    if proxy and not urllib.request.proxy_bypass(url.netloc):
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def why_failed(error: BaseException) -> str:
    """Return why a download failed, in one line, and what to do if the disk is full."""
    causes = [error]
    while inner := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(inner)
    of_system = [cause for cause in causes if isinstance(cause, OSError)]
    if full := next((cause for cause in of_system if cause.errno in FULL), None):
        way_out = "make room, or set HF_HOME to a folder on another disk, and run the command again"
        return f"{full.strerror}: {way_out}"
    # Other errors are a library's error for any failure.
    cause = of_system[0] if of_system else causes[-1]
    return " ".join(f"{type(cause).__name__}: {cause}".split())


@contextmanager
def checked_downloads(kind: type[VlbenchError]) -> Iterator[None]:
    """Check the hub's downloads of the last day when this context ends, each file once.

    huggingface_hub compares only sizes. It names each file of its cache by its ETag, which is its
    digest, unless the hub is a mirror. Raises an error of type `kind` for a file with another
    digest, after removing it.
    """
    try:
        yield
    except Exception:  # the damage may be its cause
        _require_whole(kind)
        raise
    _require_whole(kind)


def _require_whole(kind: type[VlbenchError]) -> None:
    if damaged := [damage for blob in _fresh_blobs() if (damage := _damage(blob))]:
        raise kind("; ".join(damaged))


def _fresh_blobs() -> list[Path]:
    """Return the files added to the hub's cache in the last day that are named by digests."""
    if "huggingface_hub" not in sys.modules:  # nothing was downloaded
        return []
    from huggingface_hub.constants import HF_HUB_CACHE  # noqa: PLC0415 - reads HF_HUB_OFFLINE

    blobs = [file for file in Path(HF_HUB_CACHE).glob("*--*/blobs/*") if file.is_file()]
    named = [file for file in blobs if DIGEST.fullmatch(file.name)]
    return [file for file in named if time.time() - file.stat().st_ctime < UNCHECKED]


def _damage(blob: Path) -> str:
    """Return what is wrong with a file of the hub's cache, and remove it; empty if undamaged."""
    # Some mirrors name a file by the SHA-1 of its bytes.
    for how in ("sha1", "git") if len(blob.name) == 40 else ("bytes",):
        (digest,) = file_digests([blob], how, WAYS[how])
        if digest == blob.name.lower():
            return ""
    repository = blob.parents[1]
    links = (file for file in repository.glob("snapshots/**/*") if file.resolve() == blob.resolve())
    name = next(links, blob).relative_to(repository.parent)
    for file in (
        blob.resolve(),
        blob,
    ):  # it may be a link to a file that several repositories share
        file.unlink(missing_ok=True)
    return (
        f"the download {name} is damaged: its digest is {digest}, the hub's is {blob.name}; it "
        "was removed: run the command again"
    )


def _sha1(file: Path, *, is_git: bool = False) -> str:
    """Return the SHA-1 of a file's bytes, or the SHA-1 by which git names its content."""
    head = b"blob %d\0" % file.stat().st_size if is_git else b""
    start = partial(hashlib.sha1, head, usedforsecurity=False)
    with file.open("rb") as content:
        return hashlib.file_digest(content, start).hexdigest()


WAYS: dict[str, Callable[[Path], str]] = {
    "bytes": bytes_digest,
    "sha1": _sha1,
    "git": partial(_sha1, is_git=True),
}
