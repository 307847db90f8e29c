"""Files of torch, read without torch.load, which trusts the sizes that a file states.

Three formats: the zip archive of torch.save, the TorchScript archive, and the stream of pickles
and storages that torch.save wrote before version 1.6. Nothing of a file runs.
"""

from __future__ import annotations

import ast
import io
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from vlbench.data.formats.archives import open_zip
from vlbench.data.formats.pickles import Restricted, no_part, require_bounded

# Gives the flat tensor of a storage, by the pickle's own description of it.
FindStorage = Callable[[Sequence[Any]], Tensor]

# Gives what takes the place of a class or function that is no part of a tensor.
FindOther = Callable[[str, str], Any]

# The library's names of storages.
STORAGES = {
    "BFloat16Storage": torch.bfloat16,
    "BoolStorage": torch.bool,
    "ByteStorage": torch.uint8,
    "CharStorage": torch.int8,
    "ComplexDoubleStorage": torch.complex128,
    "ComplexFloatStorage": torch.complex64,
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "IntStorage": torch.int32,
    "LongStorage": torch.int64,
    "ShortStorage": torch.int16,
}


def refuse(module: str, name: str) -> Any:
    """Refuse a class or function. Raises UnpicklingError."""
    raise pickle.UnpicklingError(f"it holds {module}.{name}, which is no part of a state dict")


def read_pickle(
    stream: IO[bytes], storage: FindStorage = no_part, other: FindOther = refuse
) -> Any:
    """Read the pickle at a stream's position, to its end.

    Raises UnpicklingError and ValueError for a broken pickle, and what the finders raise.
    """

    def find(module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        return REBUILT.get((module, name)) or other(module, name)

    require_bounded(stream)
    return Restricted(stream, find, storage).load()


class _AnyAttribute(type):
    """Makes a class the value of all its own attributes; setting an item does nothing."""

    def __getattr__(cls, name: str) -> Any:
        return cls

    def __setitem__(cls, key: object, value: object) -> None:
        """Do nothing."""


class Inert(metaclass=_AnyAttribute):
    """Takes the place of every class and function that is no part of a tensor.

    Calling it returns the class itself, so whatever a pickle does with it runs no code.
    """

    def __new__(cls, *_: object, **__: object) -> Any:
        """Return the class itself."""
        return cls


class Part:
    """Takes the place of a module of TorchScript: its attributes, without its code.

    `kind` is the name of the module's class. A state that the class would read by its own code is
    passed over.
    """

    kind = ""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}

    def __setstate__(self, state: object) -> None:
        """Keep a state of attributes by name."""
        self.attributes = state if isinstance(state, dict) else {}


def _rebuild_tensor(storage: Tensor, offset: int, size: Any, stride: Any, *_: object) -> Tensor:
    """Return a view of a storage; torch refuses one that leaves it."""
    view = storage.as_strided(size, stride, offset)
    if view.numel() > storage.numel():
        raise pickle.UnpicklingError(f"a tensor of {view.numel()} numbers repeats its storage")
    return view


def _rebuild_parameter(tensor: Tensor, *_: object) -> Tensor:
    return tensor


# The classes and functions of a state dict, and what is called in their place.
REBUILT: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): torch.Size,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
}


# The first two pickles of a file older than the zip archives.
OLD_HEAD = [0x1950A86A20F9469CFC6C, 1001]

# More attributes, and longer names, than any model has: the parts of a made-up archive may contain
# each other.
MOST_ATTRIBUTES = 100_000
LONGEST_NAME = 10_000

# Where a class of TorchScript names its parameters and its buffers.
NAMED = re.compile(r"^  __(?:parameters|buffers)__ = (\[.*\])$", re.MULTILINE)


def is_torchscript(file: Path) -> bool:
    """Return whether a file is a TorchScript archive, as OpenAI published its models."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(Path(name).name == "constants.pkl" for name in archive.namelist())


def read_torch_file(file: Path, other: FindOther) -> Any:
    """Return the content of a file of torch, on the CPU.

    Of a TorchScript archive this is the state dict. In other files `other` gives what takes the
    place of a class that is no part of a tensor. Raises what the broken parts of a file raise.
    """
    if not zipfile.is_zipfile(file):
        with file.open("rb") as stream:
            if stream.peek(2)[:2] == b"PK":
                raise ValueError("it is an archive that is cut short or broken")
            return _read_old(stream, file.stat().st_size, other)
    # Torch compresses nothing but code.
    with open_zip(file, times=10) as archive:
        top = _top(archive)
        content = io.BytesIO(archive.read(f"{top}/data.pkl"))
        storage = _Storages(partial(_member, archive, top)).find
        if f"{top}/constants.pkl" not in archive.namelist():
            return read_pickle(content, storage, other)
        root = read_pickle(content, storage, _part)
        return _state_dict(root, _Code(archive, top))


def _top(archive: zipfile.ZipFile) -> str:
    """Return the folder of everything in an archive of torch. Raises ValueError."""
    names = archive.namelist()
    folders = [name.partition("/")[0] for name in names if re.fullmatch(r"[^/]+/data\.pkl", name)]
    if len(folders) != 1:
        raise ValueError("it is an archive without the data.pkl of torch")
    order = f"{folders[0]}/byteorder"
    if order in names and archive.read(order) != b"little":
        raise ValueError("it was written on a machine of another byte order")
    return folders[0]


def _member(archive: zipfile.ZipFile, top: str, key: str, _: int) -> Tensor:
    """Return the bytes of a storage in an archive, uint8 [n]."""
    held = bytearray(archive.read(f"{top}/data/{key}"))
    return torch.frombuffer(held, dtype=torch.uint8) if held else torch.empty(0, dtype=torch.uint8)


class _Storages:
    """Storages by their keys, each read once; `read` returns the bytes of one, uint8 [n]."""

    def __init__(self, read: Callable[[str, int], Tensor]) -> None:
        self.read = read
        self.known: dict[str, Tensor] = {}

    def find(self, described: Sequence[Any]) -> Tensor:
        """Return a storage as a flat tensor, or the piece that an old file asks for."""
        what, dtype, key, _, count, *piece = described
        if what != "storage" or not isinstance(dtype, torch.dtype):
            raise ValueError(f"{described!r} describes no storage")
        if key not in self.known:
            self.known[key] = self.read(key, count * dtype.itemsize)
        flat = self.known[key].view(dtype)
        if flat.numel() != count:
            raise ValueError(f"storage {key} has {flat.numel()} numbers, {count} are expected")
        return flat.narrow(0, *piece[0][1:]) if piece and piece[0] else flat


def _read_old(stream: IO[bytes], size: int, other: FindOther) -> Any:
    """Return the content of a torch file that is no archive; its storages follow the pickle."""
    head = [read_pickle(stream) for _ in range(3)]
    if head[:2] != OLD_HEAD or head[2].get("little_endian") is not True:
        raise ValueError("it is no file of torch")
    left = size

    def reserve(_: str, count: int) -> Tensor:
        nonlocal left
        if not 0 <= count <= left:
            raise ValueError(f"its storages need more than its {size} bytes")
        left -= count
        return torch.empty(count, dtype=torch.uint8)

    storages = _Storages(reserve)
    content = read_pickle(stream, storages.find, other)
    keys = read_pickle(stream)
    if sorted(keys) != sorted(storages.known):
        raise ValueError("the storages at its end are not those of its tensors")
    for key in keys:
        _fill(storages.known[key], stream)
    return content


def _fill(storage: Tensor, stream: IO[bytes]) -> None:
    """Fill a storage, uint8 [n], from a stream: a count of numbers, then the numbers."""
    count = int.from_bytes(stream.read(8), "little")
    if len(storage) % (count or 1) or bool(count) != bool(len(storage)):
        raise ValueError(f"a storage of {len(storage)} bytes has {count} numbers")
    held = stream.read(len(storage))
    if len(held) < len(storage):
        raise EOFError("it ends inside a storage")
    if held:
        storage.copy_(torch.frombuffer(bytearray(held), dtype=torch.uint8))


def _part(module: str, name: str) -> Any:
    """Return the stand-in for a class of a TorchScript archive."""
    if module.partition(".")[0] != "__torch__":
        return Inert
    return type(name, (Part,), {"kind": f"{module}.{name}"})


class _Code:
    """The code of a TorchScript archive as text: it names the weights of each class."""

    def __init__(self, archive: zipfile.ZipFile, top: str) -> None:
        self._archive = archive
        self._folder = f"{top}/code/"
        self._known: dict[str, set[str] | None] = {}

    def weights(self, kind: str) -> set[str] | None:
        """Return the names of a class's parameters and buffers; None if it has no such list."""
        if kind not in self._known:
            self._known[kind] = self._read(kind)
        return self._known[kind]

    def _read(self, kind: str) -> set[str] | None:
        module, _, name = kind.rpartition(".")
        file = f"{self._folder}{module.replace('.', '/')}.py"
        if file not in self._archive.namelist():
            return None
        text = self._archive.read(file).decode()
        body = re.search(rf"^class {re.escape(name)}\(Module\):\n((?:  .*\n)*)", text, re.MULTILINE)
        listed = NAMED.findall(body[1]) if body else []
        if len(listed) != 2:
            return None
        return {one for names in listed for one in ast.literal_eval(names)}


def _state_dict(root: Any, code: _Code) -> dict[str, Tensor]:
    """Return the parameters and buffers of a module and its parts."""
    if not isinstance(root, Part):
        raise pickle.UnpicklingError("it is a TorchScript archive without a module")
    tensors: dict[str, Tensor] = {}
    waiting, seen = [("", root)], 0
    while waiting:
        prefix, part = waiting.pop()
        weights = code.weights(part.kind)
        seen += 1 + len(part.attributes)
        if seen > MOST_ATTRIBUTES or len(prefix) > LONGEST_NAME:
            raise ValueError("its modules have too many attributes, or contain each other")
        for name, value in part.attributes.items():
            if isinstance(value, Tensor) and (weights is None or name in weights):
                tensors[f"{prefix}{name}"] = value
            elif isinstance(value, Part):
                waiting.append((f"{prefix}{name}.", value))
    return tensors
