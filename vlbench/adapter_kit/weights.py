"""Weights: located, read without running code, loaded into modules, or drawn from a seed."""

from __future__ import annotations

import math
import pickle
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from vlbench.data.formats.torch_files import read_torch_file
from vlbench.errors import WeightsError
from vlbench.system import hub

# Exceptions of readers for a file that is cut short, of another format, or forged.
UNREADABLE = (
    *(OSError, EOFError, RuntimeError, LookupError, ValueError, TypeError, AttributeError),
    *(ArithmeticError, AssertionError, ImportError, MemoryError, SyntaxError),
    *(pickle.UnpicklingError, SafetensorError, struct.error, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error),
)


# Numbers of modules in a configuration, and the largest accepted. Published models have up to 126
# layers and 512 experts.
COUNTS = re.compile(r"(^|_)(layers|n_layer|num_layer|depths?|blocks|stages|experts)$")
MOST_MODULES = 1024

# The largest other size, if nothing else bounds the memory that it takes.
LARGEST_SIZE = 1_000_000

# A byte of weights contains at most two numbers, of four bits each. A model may have FREE_NUMBERS
# more that are computed, such as positions.
MOST_PER_BYTE, FREE_NUMBERS = 2, 30_000_000

# The key that makes a library load a pickle, which may run code.
PICKLES = "checkpoint_path"


def require_sizes(where: str, values: Any, *, largest: float = math.inf, key: str = "") -> None:
    """Raise WeightsError, with the key, for a configuration larger than any network's.

    It is checked before a library builds modules, because building takes time even if the weights
    do not fit. No number may be above `largest`. Files to load are refused too.
    """
    if isinstance(values, Mapping):
        for name, value in values.items():
            require_sizes(where, value, largest=largest, key=str(name))
        if values.get(PICKLES):
            raise WeightsError(
                f"{where}: {PICKLES} names another file; a model must have its own weights"
            )
    elif isinstance(values, list | tuple):
        for value in values:
            require_sizes(where, value, largest=largest, key=key)
    elif isinstance(values, int | float):
        most = MOST_MODULES if COUNTS.search(key) else largest
        if values > most:
            raise WeightsError(f"{where}: {key} is {values}; {most:g} is the maximum")


def require_weights_for(name: str, files: Sequence[Path], build: Callable[[], Any]) -> None:
    """Raise WeightsError if local weights are far smaller than the model that a library builds.

    The library would fill memory with missing weights before it reports them. `build` returns the
    model; here it takes no memory.
    """
    held = sum(file.stat().st_size for file in files)
    try:
        with torch.device("meta"):
            model = build()
    except UNREADABLE as error:
        raise WeightsError(f"{name} cannot be built: {error}") from error
    needed = sum(part.numel() for part in [*model.parameters(), *model.buffers()])
    if files and needed > FREE_NUMBERS + MOST_PER_BYTE * held:
        what = f"its configuration needs {needed:,} numbers, but its weights are {held:,} bytes"
        raise WeightsError(f"{name} cannot be loaded: {what}")


def weights_file(path: str, hint: str = "") -> Path:
    """Return the file at a path. Raises WeightsError with the hint if it does not exist."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise WeightsError(f"no file of weights at {file}{hint and f'; {hint}'}")
    return file


def hub_obstacle() -> str:
    """Return why the hub cannot be reached; empty if it can."""
    if hub.is_offline():
        return hub.why_offline()
    return "" if hub.reachable() else "the hub cannot be reached"


def cached_file(repository: str, names: Iterable[str], revision: str = "main") -> Path | None:
    """Return the first of some files of a repository that is in the hub's cache."""
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - reads HF_HUB_OFFLINE

    try:
        cached = [try_to_load_from_cache(repository, name, revision=revision) for name in names]
    except ValueError:  # no name that the hub could have
        return None
    return next((Path(path) for path in cached if isinstance(path, str)), None)


def require_hub(what: str, origin: str, instead: str = "weights=PATH") -> None:
    """Raise WeightsError, for weights that are not here, if the hub cannot be reached."""
    if obstacle := hub_obstacle():
        raise download_error(what, origin, obstacle, instead)


def download_error(
    what: str, origin: str, why: object, instead: str = "weights=PATH"
) -> WeightsError:
    """Return the error for weights that cannot be downloaded; it names the local alternative."""
    why = hub.why_failed(why) if isinstance(why, BaseException) else why
    return WeightsError(
        f"{what} cannot be downloaded from {origin}: {why}; "
        f"give a local copy with --model-args {instead}"
    )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the CPU's random numbers inside the block; the global generator is restored after."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def unreadable(file: Path, error: BaseException, kind: str = "weights") -> WeightsError:
    """Return the error for a file that cannot be read in its format."""
    why = "it is empty" if file.stat().st_size == 0 else str(error) or type(error).__name__
    return WeightsError(f"{file} cannot be read as {kind}: {why}")


def read_weights(file: Path, *, past_pickles: bool = False) -> Mapping[Any, Any]:
    """Return the content of a file of weights, by key: .safetensors, or a format of torch.

    Code in a file never runs, except in OpenAI's TorchScript archives; other TorchScript archives
    are refused. `past_pickles` replaces pickled objects by `Inert`: MadryLab's checkpoints
    contain objects of the training program beside the weights. Raises WeightsError.
    """
    try:
        is_safe = file.suffix == ".safetensors"
        content = load_file(file) if is_safe else read_torch_file(file, past_pickles=past_pickles)
    except UNREADABLE as error:
        raise unreadable(file, error) from error
    if not isinstance(content, Mapping):
        raise WeightsError(f"{file} contains a {type(content).__name__}, not a state dict")
    return content


def read_state_dict(file: Path) -> dict[str, Any]:
    """Return the state dict in a file of weights.

    A dict under the key `state_dict` is unwrapped. The prefix `module.` is dropped if all keys
    have it. Raises WeightsError, also for pickled objects.
    """
    content = read_weights(file)
    state = content.get("state_dict", content)
    if not isinstance(state, Mapping):
        raise WeightsError(f"{file} contains a {type(state).__name__}, not a state dict")
    keys = [str(key) for key in state]
    prefix = "module." if all(key.startswith("module.") for key in keys) else ""
    return dict(zip([key.removeprefix(prefix) for key in keys], state.values(), strict=True))


def rename_key(key: str, parts: Mapping[str, str]) -> str:
    """Return a key of a state dict with some parts replaced, one after another."""
    for old, new in parts.items():
        key = key.replace(old, new)
    return key


def load_weights(module: torch.nn.Module, state: Mapping[str, Any], file: Path) -> None:
    """Load a state dict into a module.

    Raises WeightsError if keys are missing, unexpected or of another shape, with the first ten
    of each; `file` is named in the message.
    """
    expected = module.state_dict()
    shapes = {k: tuple(getattr(value, "shape", ("no tensor",))) for k, value in state.items()}
    misfits = {
        "missing": [key for key in expected if key not in shapes],
        "unexpected": [key for key in shapes if key not in expected],
        "of another shape": [
            f"{key} {shapes[key]}, not {tuple(value.shape)}"
            for key, value in expected.items()
            if key in shapes and shapes[key] != value.shape
        ],
    }
    listed = [f"{len(keys)} {how}: {', '.join(keys[:10])}" for how, keys in misfits.items() if keys]
    if listed:
        raise WeightsError(f"{file} does not fit {type(module).__name__}; {'; '.join(listed)}")
    # Some modules require their layout version in the state dict; the module's own version is kept.
    expected.update(state)
    try:
        module.load_state_dict(expected)
    except RuntimeError as error:  # a tensor that is sparse, quantised, or has no values
        raise WeightsError(f"{file} does not fit {type(module).__name__}: {error}") from error
