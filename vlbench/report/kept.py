"""What is made from boards, kept in the cache under the digest of all that it is made from.

So what has not changed is not made again, and what a folder of boards says of itself is not
believed: only what this vlbench made here before is taken from the cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vlbench
from vlbench.digests import bytes_digest, digest
from vlbench.errors import OutputError, UnknownNameError
from vlbench.files import MOST_ARTIFACT, default_cache, read_bytes, write_whole

# The libraries that the numbers and the pictures depend on.
LIBRARIES = ("numpy", "scipy", "pyarrow", "matplotlib", "pillow")


def kept(parts: Sequence[Any], make: Callable[[], bytes]) -> bytes:
    """Return what `make` returns, from the cache where it was made before.

    `parts` are plain values that it depends on, besides the code. One whose checksum is wrong
    counts as absent. Where nothing can be kept, it is made all the same.
    """
    try:
        file = default_cache() / "boards" / digest([_code(), *parts]).removeprefix("sha256:")
    except UnknownNameError:
        return make()
    with suppress(OSError, ValueError):
        checksum, content = read_bytes(file, MOST_ARTIFACT).split(b"\n", 1)
        if checksum == _checksum(content):
            return content
    content = make()
    with suppress(OutputError):
        write_whole(file, _checksum(content) + b"\n" + content)
    return content


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


@cache
def _code() -> str:
    """Return the digest of vlbench's code and of the versions of the libraries: 10 ms."""
    files = sorted(Path(vlbench.__file__).parent.rglob("*.py"))
    return digest([*map(bytes_digest, files), *map(version, LIBRARIES)])
