"""The options of a run, from the command line or from `vlbench.evaluate`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from vlbench.catalog.sources import trusted_packages
from vlbench.catalog.strict_yaml import scalar
from vlbench.errors import UnknownNameError, require_known
from vlbench.schema import Misfit, alternatives, plain, read

if TYPE_CHECKING:  # `leaderboard build` looks up figures and computes nothing
    import torch

    from vlbench.engine.devices import ComputeSettings

# The dtypes in which adapters may compute, by torch's names.
DTYPES = ("float32", "bfloat16", "float16", "float64")

# The only variable that is expanded in `data:`.
DATA_VARIABLE = "$VLBENCH_DATA"


class Word(str):
    """A value of `--model-args` as typed; the adapter's parameter determines its type."""

    __slots__ = ()

    def as_annotated(self, kind: Any) -> Any:
        """Return the value as YAML reads it if this type of parameter accepts it, else the text.

        Raises UnknownNameError for a number that is too large.
        """
        text = str(self)
        try:
            value = scalar(text) if text else text
        except ValueError as error:
            if str in alternatives(kind):
                return text
            raise UnknownNameError(f"--model-args: {error}") from error
        for word in (value, text):
            with suppress(Misfit):
                read(kind, word)
                return word
        return value


def model_args(text: str) -> dict[str, Any]:
    """Return the values of `k=v,...` as typed. Raises UnknownNameError."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    for key, equals, _ in pairs:
        if not equals:
            raise UnknownNameError(f"--model-args must be k=v,...; '{key}' has no '='")
    return {key.strip(): Word(value) for key, _, value in pairs}


class Keywords(TypedDict, total=False):
    """The options as Python users write them: folders may be strings, and `auto` is a string."""

    model_args: str | Mapping[str, Any]
    name: str | None
    data_dir: str | Path | Mapping[str, str | Path]
    download: bool
    include_path: str | Path | Sequence[str | Path]
    output: str | Path | None
    cache_dir: str | Path | None
    batch_size: int | Literal["auto"] | None
    device: str
    dtype: str
    limit: int | None
    offline: bool
    overwrite: bool
    images: str | Path | None
    questions: str | Path | None
    params: Mapping[str, Any]
    trust: bool


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a run, with the names of the command line."""

    model_args: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    data_dir: Mapping[str, Path] = field(default_factory=dict)  # "" stands for every data set
    download: bool = False
    include_path: Sequence[Path] = ()
    output: Path | None = None
    cache_dir: Path | None = None  # None: nothing is kept after the run
    batch_size: int | None = 32  # None: measured
    device: str = "auto"
    dtype: str = "float32"
    limit: int | None = None
    offline: bool = False
    overwrite: bool = False
    images: Path | None = None  # the folder for tasks on a user's images
    questions: Path | None = None  # the table for a task on a user's questions
    params: Mapping[str, Any] = field(default_factory=dict)  # of the tasks, instead of their files'
    trust: bool = False

    def __post_init__(self) -> None:
        """Reject invalid numbers, and take the dtype from the model's arguments."""
        arguments = dict(self.model_args)
        word = arguments.pop("dtype", self.dtype)
        if self.dtype not in {type(self).dtype, word}:
            raise UnknownNameError(f"two dtypes: {self.dtype}, and {word} in the model's arguments")
        if word not in DTYPES:  # before torch is imported
            raise UnknownNameError(f"no dtype is named '{word}'; {', '.join(DTYPES)}")
        object.__setattr__(self, "dtype", str(word))
        object.__setattr__(self, "model_args", arguments)
        for name in ("limit", "batch_size"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise UnknownNameError(f"{name} must be 1 or more, not {number}")

    @classmethod
    def of(cls, **words: Any) -> Options:
        """Return options from values as Python users write them: folders and `auto` as strings.

        Raises UnknownNameError for an unknown option, with the nearest name, and Misfit for values
        of another type.
        """
        fields = cls.__dataclass_fields__
        require_known("option", words, fields)
        read(Keywords, plain(words))
        for name in ("output", "cache_dir", "images", "questions"):
            words[name] = Path(words[name]) if words.get(name) else None
        include, folders = words.get("include_path", ()), words.get("data_dir", {})
        is_single = isinstance(include, str | Path)
        words["include_path"] = [Path(folder) for folder in ([include] if is_single else include)]
        by_name = {"": folders} if isinstance(folders, str | Path) else folders
        words["data_dir"] = {name: Path(folder) for name, folder in by_name.items()}
        if isinstance(words.get("model_args"), str):
            words["model_args"] = model_args(words["model_args"])
        if words.get("batch_size") == "auto":
            words["batch_size"] = None
        return cls(**words)

    @cached_property
    def trusted(self) -> set[str] | None:
        """The packages whose functions a file may name; None: all packages."""
        return None if self.trust else trusted_packages()

    @cached_property
    def of_companion(self) -> Options:
        """The options for a model that another model or a task is made from."""
        return Options(trust=self.trust)

    @cached_property
    def data_folder(self) -> Path | None:
        """The folder that DATA_VARIABLE stands for; None if it is not set."""
        folder = self.data_dir.get("") or os.environ.get(DATA_VARIABLE[1:])
        return Path(folder).absolute() if folder else None

    def settings(self) -> ComputeSettings:
        """Return how the engine computes: on this process's device, in the requested dtype.

        Raises UnknownNameError for a device that does not exist.
        """
        import torch  # noqa: PLC0415 - as above

        from vlbench.engine.devices import ComputeSettings, loader_workers  # noqa: PLC0415

        device, dtype = self._device(), getattr(torch, self.dtype)
        return ComputeSettings(device, dtype, self.batch_size, loader_workers(device))

    def _device(self) -> torch.device:
        import torch  # noqa: PLC0415 - as above

        from vlbench.engine.processes import local_device  # noqa: PLC0415

        try:
            device = local_device(self.device)
            torch.zeros(1, device=device).item()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            why = str(error).partition("\n")[0]
            if why.startswith("Expected one of"):  # PyTorch does not know the name
                why = "give auto, cpu, cuda, cuda:1 or mps"
            raise UnknownNameError(f"no device '{self.device}' here: {why}") from error
        return device
