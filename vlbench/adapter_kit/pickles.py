"""Pickles of tensors, read as data: no class and no function that a pickle names is called.

A pickle is a program. This one may only make plain values, ordered dictionaries, and views of
tensors that the caller reads. What else it names goes to the caller, who refuses it, or puts
`Inert` or `Part` in its place.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import IO, Any

import torch
from torch import Tensor

from vlbench.data.pickles import require_bounded

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


def no_storage(described: Sequence[Any]) -> Tensor:
    """Refuse a storage, for a pickle that has none. Raises UnpicklingError."""
    raise pickle.UnpicklingError(f"the storage {described!r} has no place here")


def refuse(module: str, name: str) -> Any:
    """Refuse a class or function. Raises UnpicklingError."""
    raise pickle.UnpicklingError(f"it holds {module}.{name}, which is no part of a state dict")


def read_pickle(
    stream: IO[bytes], storage: FindStorage = no_storage, other: FindOther = refuse
) -> Any:
    """Return what a pickle holds; the stream stands at its end afterwards.

    Raises UnpicklingError and ValueError for a broken pickle, and what the finders raise.
    """
    require_bounded(stream)
    return _Unpickler(stream, storage, other).load()


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


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: IO[bytes], storage: FindStorage, other: FindOther) -> None:
        super().__init__(stream, encoding="utf-8")
        self._storage = storage
        self._other = other

    def persistent_load(self, described: Any) -> Tensor:
        return self._storage(described)

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        return REBUILT.get((module, name)) or self._other(module, name)


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
