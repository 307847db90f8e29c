"""Pickles of untrusted files: read without running code, in memory proportional to their size.

Opcodes are read one by one before a file is unpickled, because Python's unpickler allocates the
declared size of an opcode: nine bytes may take 16 GB.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from vlbench.errors import DataError
from vlbench.system.files import MOST_ANNOTATIONS, read_bytes

# An upper limit for shared files: the 50,000 images of CIFAR-100 take 300,000 opcodes.
MOST_OPCODES = 4_000_000

# Python's hash of a deeply nested tuple ends the process; a checkpoint nests only a few.
MOST_NESTED = 100

# These opcodes take memory without a byte in the file, or read data outside the file.
REFUSED = {
    *("BYTEARRAY8", "NEXT_BUFFER", "READONLY_BUFFER"),
    *("EXT1", "EXT2", "EXT4", "PERSID"),
}

# Exceptions from reading opcodes and unpickling other files.
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

# Represents a mark on the stack of depths.
MARK = -1

Allowed = Mapping[tuple[str, str], Callable[..., Any]]


class _Restricted(pickle.Unpickler):
    """Python's unpickler, restricted to allowed classes and functions."""

    def __init__(self, stream: IO[bytes], allowed: Allowed, encoding: str) -> None:
        super().__init__(stream, encoding=encoding)
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        """Return the substitute for a class or function."""
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"it loads {f'{module}.{name}'!r}")
        return self._allowed[module, name]


def read_pickle(path: Path, allowed: Allowed | None = None, *, encoding: str = "bytes") -> Any:
    """Return the content of a pickle, with the substitutes in `allowed` by (module, name).

    `encoding` decodes texts of Python 2. Raises one of UNREADABLE, or DataError, for another file.
    """
    stream = io.BytesIO(read_bytes(path, MOST_ANNOTATIONS))
    require_bounded(stream)
    stream.seek(0)
    return _Restricted(stream, allowed or {}, encoding).load()


def unreadable(name: str, what: str, error: Exception) -> DataError:
    """Return the error for a pickle that is not `what` it should be."""
    why = f"{type(error).__name__}: {error}"
    return DataError(f"{name} is not {what} ({why:.200}); fetch it again")


def require_bounded(stream: IO[bytes]) -> None:
    """Check the pickle at a stream's position, and leave the stream after its end.

    Raises UnpicklingError for opcodes that take more memory than the file does, for too many parts
    and for tuples that nest too deeply; ValueError for content that is not a pickle.
    """
    nesting = _Nesting()
    for count, (opcode, value, _) in enumerate(pickletools.genops(stream)):
        place = int(value or 0) if opcode.name.endswith("PUT") else 0
        if opcode.name in REFUSED or place > count:
            raise pickle.UnpicklingError(f"opcode {count}, {opcode.name} {value}, is not allowed")
        if count >= MOST_OPCODES:
            raise pickle.UnpicklingError("it has too many parts")
        if nesting.after(opcode, value) > MOST_NESTED:
            raise pickle.UnpicklingError(f"it nests more than {MOST_NESTED} tuples")


class _Nesting:
    """The greatest nesting depth of tuples in each object on the unpickler's stack."""

    def __init__(self) -> None:
        self._stack: list[int] = []
        self._memo: dict[int, int] = {}

    def after(self, opcode: pickletools.OpcodeInfo, value: Any) -> int:
        """Return the depth of the object that an opcode leaves on top of the stack."""
        before, stack, name = opcode.stack_before, self._stack, opcode.name
        if name == "MEMOIZE" or name.endswith("PUT"):
            place = len(self._memo) if name == "MEMOIZE" else int(value)
            self._memo[place] = stack[-1] if stack else 0
            return 0
        count = len(before)
        if pickletools.markobject in before:
            count = before.index(pickletools.markobject)
            count += 1 + next((i for i, depth in enumerate(reversed(stack)) if depth == MARK), 0)
        depths = [stack.pop() for _ in range(min(count, len(stack)))]
        depth = max(depths, default=0) + name.startswith("TUPLE")
        if name.endswith("GET"):
            depth = self._memo.get(int(value), 0)
        elif name == "MARK":
            depth = MARK
        stack += [depth] * len(opcode.stack_after)
        return depth
