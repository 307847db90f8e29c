"""Weights: found or refused, read without running code, put into modules, or drawn from a seed."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from vlbench import hub
from vlbench.errors import WeightsError

# What torch and safetensors raise for a file that is cut short or of another format.
UNREADABLE = (
    *(OSError, EOFError, RuntimeError, KeyError, ValueError),
    *(pickle.UnpicklingError, SafetensorError),
)

# The classes and functions of a state dict. Torch itself finds its storages, by their names.
REBUILT = {
    ("collections", "OrderedDict"),
    ("torch", "Size"),
    ("torch._utils", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
}


def weights_file(path: str, hint: str = "") -> Path:
    """Return the file at a path. Raises WeightsError, with the hint, where there is none."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise WeightsError(f"no file of weights at {file}{hint and f'; {hint}'}")
    return file


def hub_obstacle() -> str:
    """Return why nothing can be downloaded from the hub; empty where something can."""
    if hub.is_offline():
        return "this run is offline"
    return "" if hub.reachable() else "the hub cannot be reached"


def not_downloaded(
    what: str, origin: str, why: object, instead: str = "weights=PATH"
) -> WeightsError:
    """Return the error for weights that cannot be downloaded; it names the local alternative."""
    return WeightsError(
        f"{what} cannot be downloaded from {origin}: {why}; "
        f"give a local copy with --model-args {instead}"
    )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw random numbers on the CPU from a seed; the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def read_state_dict(file: Path) -> dict[str, Any]:
    """Return the state dict in a .safetensors file, a torch file or a TorchScript archive.

    A dict under the key `state_dict` is taken out. The prefix `module.` is dropped where all keys
    have it. Raises WeightsError, also for pickled objects, which are never run.
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


def load_weights(module: torch.nn.Module, state: Mapping[str, Any], file: Path) -> None:
    """Load a state dict into a module.

    Raises WeightsError where keys are missing, unexpected or of another shape, with the first ten
    of each; `file` is named in the message.
    """
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


def read_past_pickles(file: Path) -> Any:
    """Return the content of a torch file; pickled objects become `Inert`, and no code of them runs.

    The checkpoints of MadryLab have objects of the training program beside the weights.
    """
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        return torch.load(file, map_location="cpu", weights_only=False, pickle_module=HARMLESS)


def _content(file: Path) -> Any:
    if file.suffix == ".safetensors":
        return load_file(file)
    if not is_torchscript(file):
        return torch.load(file, map_location="cpu", weights_only=True)
    # torch deprecates this function, but has no other that reads TorchScript.
    with warnings.catch_warnings(action="ignore"):
        return torch.jit.load(file, map_location="cpu").state_dict()  # type: ignore[no-untyped-call]


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


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(module, name) if (module, name) in REBUILT else Inert


# What torch.load needs of a pickle module.
HARMLESS = SimpleNamespace(
    __name__="harmless",
    Unpickler=_Unpickler,
    load=lambda file, **options: _Unpickler(file, **options).load(),
)
