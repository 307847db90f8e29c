"""Pickles of untrusted files: read without running code, in memory of the order of their size.

Before a file is unpickled its opcodes are read one by one, because Python's unpickler allocates
what an opcode announces: nine bytes may take 16 GB.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vlbench.errors import DataError

# More than the largest shared files have: the 50,000 images of CIFAR-100 take 300,000.
MOST_OPCODES = 4_000_000

# Tuples may nest, and Python's hash of one that is nested deeply ends the process.
MOST_TUPLES = 1_000

# What reading opcodes and unpickling raise for other files.
UNREADABLE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    MemoryError,
    OSError,
)

Allowed = Mapping[tuple[str, str], Callable[..., Any]]


def read_pickle(path: Path, allowed: Allowed | None = None, *, encoding: str = "bytes") -> Any:
    """Return the content of a pickle, with stand-ins for what is `allowed` by (module, name).

    `encoding` decodes texts of Python 2. Raises one of UNREADABLE, or DataError, for another file.
    """
    content = path.read_bytes()
    _require_bounded(content)
    return _Unpickler(io.BytesIO(content), allowed or {}, encoding).load()


def unreadable(name: str, what: str, error: Exception) -> DataError:
    """Return the error for a pickle that is not `what` it should be."""
    why = f"{type(error).__name__}: {error}"
    return DataError(f"{name} is not {what} ({why:.200}); fetch it again")


def _require_bounded(content: bytes) -> None:
    """Raise UnpicklingError for opcodes that take more memory than the file does."""
    tuples = 0
    for number, (opcode, value, _) in enumerate(pickletools.genops(content), 1):
        if opcode.name.endswith("PUT") and int(value or 0) > len(content):
            raise pickle.UnpicklingError(f"it stores object {value} in {len(content)} bytes")
        tuples += opcode.name.startswith("TUPLE")
        if number > MOST_OPCODES or tuples > MOST_TUPLES:
            raise pickle.UnpicklingError("it has too many parts")


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, allowed: Allowed, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"it asks for {f'{module}.{name}'!r}")
        return self._allowed[module, name]
