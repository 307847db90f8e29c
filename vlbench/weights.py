"""Files of weights: read without running what is in them, and put where all of them fit."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
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
