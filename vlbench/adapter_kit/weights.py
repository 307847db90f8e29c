"""Files of weights: read without running what is in them, and put where all of them fit."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from vlbench.errors import WeightsError

# What torch and safetensors raise for a file that is something else, or cut short.
UNREADABLE = (
    *(OSError, EOFError, RuntimeError, KeyError, ValueError),
    *(pickle.UnpicklingError, SafetensorError),
)

# All that a state dict is made of; storages torch itself finds, by their names.
REBUILT = {
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
}


def read_state_dict(file: Path) -> dict[str, Any]:
    """Return the state dict in a .safetensors file, a torch file or a TorchScript archive.

    A dict under `state_dict` is taken out, and the prefix `module.` of all keys dropped. Pickled
    objects are refused. Raises WeightsError.
    """
    try:
        content = _content(file)
    except UNREADABLE as error:
        raise WeightsError(f"{file} cannot be read as weights: {error}") from error
    state = content.get("state_dict", content) if isinstance(content, Mapping) else content
    if not isinstance(state, Mapping):
        raise WeightsError(f"{file} holds a {type(state).__name__}, not a state dict")
    keys = [str(key) for key in state]
    prefix = "module." if all(key.startswith("module.") for key in keys) else ""
    return dict(zip([key.removeprefix(prefix) for key in keys], state.values(), strict=True))


def is_torchscript(file: Path) -> bool:
    """Return whether a file is a TorchScript archive, as OpenAI published its models."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(Path(name).name == "constants.pkl" for name in archive.namelist())


def fill(module: torch.nn.Module, state: Mapping[str, Any], file: Path) -> None:
    """Put weights into a module. Raises WeightsError with the first ten keys of each misfit."""
    wanted = module.state_dict()
    shapes = {k: tuple(getattr(value, "shape", ("no tensor",))) for k, value in state.items()}
    misfits = {
        "missing": [key for key in wanted if key not in shapes],
        "unexpected": [key for key in shapes if key not in wanted],
        "of another shape": [
            f"{key} {shapes[key]}, not {tuple(value.shape)}"
            for key, value in wanted.items()
            if key in shapes and shapes[key] != value.shape
        ],
    }
    listed = [f"{len(keys)} {how}: {', '.join(keys[:10])}" for how, keys in misfits.items() if keys]
    if listed:
        raise WeightsError(f"{file} does not fit {type(module).__name__}; {'; '.join(listed)}")
    module.load_state_dict(state)


def _content(file: Path) -> Any:
    if file.suffix == ".safetensors":
        return load_file(file)
    if not is_torchscript(file):
        return torch.load(file, map_location="cpu", weights_only=True)
    with warnings.catch_warnings(action="ignore"):  # deprecated, but nothing else reads these
        return torch.jit.load(file, map_location="cpu").state_dict()  # type: ignore[no-untyped-call]


def read_harmlessly(file: Path) -> Any:
    """Return what a torch file holds, running nothing of it; what torch refuses comes out Inert.

    Madry's checkpoints hold objects of their training program beside the weights.
    """
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        return torch.load(file, map_location="cpu", weights_only=False, pickle_module=HARMLESS)


class _Swallow(type):
    """Makes a class all of its own attributes, and lets items be set to no effect."""

    def __getattr__(cls, name: str) -> Any:
        return cls

    def __setitem__(cls, key: object, value: object) -> None:
        """Ignore."""


class Inert(metaclass=_Swallow):
    """Stands for all classes and functions that are no part of a tensor, and for their results.

    It is its own instance: whatever a pickle does with it runs nothing and changes nothing.
    """

    def __new__(cls, *_: object, **__: object) -> Any:
        """Return the class itself."""
        return cls


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(module, name) if (module, name) in REBUILT else Inert


# What torch asks of a pickle module.
HARMLESS = SimpleNamespace(
    __name__="harmless",
    Unpickler=_Unpickler,
    load=lambda file, **options: _Unpickler(file, **options).load(),
)
