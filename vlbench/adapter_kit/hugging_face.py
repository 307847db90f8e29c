"""Models of transformers: from the hub, a folder, an original file, or a seed.

An adapter names the model's class and gets a model ready for use, here as a `JointModel`::

    checkpoint = Checkpoint(architecture, weights, revision, init_seed)
    opened = checkpoint.open("LxmertForPreTraining", device, dtype, optional_heads=True)
    super().__init__(opened, "cls.seq_relationship", checkpoint.tokenizer())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vlbench.adapter_kit.text import TextReader
from vlbench.adapter_kit.weights import (
    UNREADABLE,
    cached_file,
    download_error,
    hub_obstacle,
    read_state_dict,
    require_hub,
    require_sizes,
    require_weights_for,
    seeded,
)
from vlbench.errors import CannotDo, WeightsError
from vlbench.system.files import MOST_CONFIG, MOST_TEXT, require_at_most

# Only eager attention returns its weights. transformers only warns of weights that do not fit.
LOADING = {
    "dtype": torch.float32,
    "attn_implementation": "eager",
    "ignore_mismatched_sizes": True,
    "output_loading_info": True,
}

# The files of weights in a folder.
KINDS = ("*.safetensors", "*.bin", "*.pt")
CONFIG = "config.json"

# Files of weights in a repository, each sufficient: the whole, or the index of its shards.
WEIGHTS = tuple(
    f"{name}{index}"
    for name in ("model.safetensors", "pytorch_model.bin")
    for index in ("", ".index.json")
)

# The texts in a folder that transformers reads. Other files, such as a training log, may be large.
TEXTS = ("*config*.json", "*token*.json", "vocab*.json")

# For each class, groups of files; it needs a file of each group. If there is no vocabulary,
# transformers would make a tokenizer that knows no words.
IMAGE_STEPS = ("preprocessor_config.json", "processor_config.json")
VOCABULARIES = ("tokenizer.json", "*vocab*", "*.model", "*.tiktoken", "*.spm", "tekken.json")
NEEDED: dict[str, list[tuple[str, ...]]] = {
    "AutoConfig": [(CONFIG,)],
    "AutoImageProcessor": [(CONFIG,), IMAGE_STEPS],
    "AutoProcessor": [(CONFIG,), IMAGE_STEPS, VOCABULARIES],
    "AutoTokenizer": [VOCABULARIES],
}
COMPLETE = "write the whole model there with save_pretrained, or copy the file from its repository"

Rename = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class OpenedModel(NamedTuple):
    """A frozen model in evaluation mode on its device, and its configuration.

    `missing` lists head weights that are not in the checkpoint; transformers drew them at random.
    """

    model: Any
    config: Any
    missing: list[str]

    def has(self, part: str = "") -> bool:
        """Return whether the checkpoint has every weight whose name begins with `part`."""
        return not any(name.startswith(part) for name in self.missing)


class Checkpoint:
    """The source of a transformers model and its tokenizer.

    `architecture` is a name on the hub, at `revision`, or a folder in transformers' format.
    `weights` is "pretrained" (the weights of `architecture`), the path of a folder that replaces
    it, or "random" (drawn with `seed`). If `rename` is given, `weights` may also be a file of the
    original code; `rename` maps its state dict to transformers' names. `instead` is the argument
    that takes a local copy of a missing download; it appears in error messages.
    """

    def __init__(
        self,
        architecture: str,
        weights: str = "pretrained",
        revision: str = "main",
        seed: int = 0,
        *,
        rename: Rename | None = None,
        instead: str = "weights=PATH",
    ) -> None:
        path = None if weights in {"pretrained", "random"} else Path(weights).expanduser()
        self.seed = seed if weights == "random" else None
        self.file = path if rename and path and path.is_file() else None
        if path and not path.is_dir() and not self.file:
            raise WeightsError(f"no {'file or ' if rename else ''}folder of weights at {weights}")
        self.name = weights if path else architecture
        self._place = architecture if self.file or not path else weights
        self._folder = Path(self._place).expanduser()
        self.is_local = self._folder.is_dir()
        self._revision = revision
        self._rename = rename
        self._instead = instead
        self._is_sane = False

    @cached_property
    def config(self) -> Any:
        """The configuration of the model. Raises WeightsError."""
        return self.load("AutoConfig")

    def require_here(self) -> None:
        """Raise WeightsError if the files are not here and the hub cannot be reached.

        Reads no file; a repository counts as here if its configuration and weights are cached.
        """
        if self.is_local:
            return
        files = [(CONFIG,), *([] if self.file or self.seed is not None else [WEIGHTS])]
        if not all(cached_file(self._place, names, self._revision) for names in files):
            require_hub(self._what, "the hub", self._instead)

    def lacks(self, file: str) -> bool:
        """Return whether the checkpoint is a local folder that does not contain this file."""
        return self.is_local and not (self._folder / file).is_file()

    def load(self, kind: str, **options: Any) -> Any:
        """Return what a class of transformers, such as "AutoTokenizer", loads from the checkpoint.

        Raises WeightsError.
        """
        try:
            with _without_bars():
                if not self._is_sane:
                    for file in [f for t in TEXTS for f in self._folder.glob(t)]:
                        require_at_most(file, MOST_CONFIG if file.name == CONFIG else MOST_TEXT)
                    stated = transformers_object("PreTrainedConfig").get_config_dict(**self._where)
                    require_sizes(f"{self.name}, {CONFIG}", stated[0])
                    self._require_no_timm(stated[0])
                    self._is_sane = True
                for names in NEEDED.get(kind, []) if self.is_local else []:
                    if not any(file for name in names for file in self._folder.glob(name)):
                        raise WeightsError(f"{self._place} has no {names[0]}; {COMPLETE}")
                return transformers_object(kind).from_pretrained(
                    **self._where, trust_remote_code=False, **options
                )
        except UNREADABLE as error:
            raise self._refusal(error) from error

    def open(
        self,
        kind: str,
        device: torch.device,
        dtype: torch.dtype,
        *,
        config: Any = None,
        optional_heads: bool = False,
        attention: str | None = "eager",
    ) -> OpenedModel:
        """Return a model of a class of transformers, such as "LxmertForPreTraining".

        `config` replaces the checkpoint's configuration. With `optional_heads`, only the weights of
        the base model must be in the checkpoint. `attention` is transformers' implementation: only
        eager attention returns its weights; None means SDPA in each part of the model that has it.
        Raises CannotDo for a checkpoint of another type, and WeightsError for weights that are
        missing or have another shape.
        """
        config = self.config if config is None else config
        reads = getattr(transformers_object(kind), "config_class", None)
        if reads is not None and config.model_type != reads.model_type:
            what = f"{self.name} is a model of type {config.model_type}"
            raise CannotDo(f"{what}; this adapter reads type {reads.model_type}")
        model, missing = self._make(kind, config, attention)
        required = f"{model.base_model_prefix}." if optional_heads else ""
        lost = [name for name in missing if name.startswith(required)]
        if lost:
            raise WeightsError(f"{self.name} lacks {len(lost)} weights: {', '.join(lost[:10])}")
        model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        return OpenedModel(model, config, missing)

    def tokenizer(self, **options: Any) -> Any:
        """Return a fast tokenizer with a padding token. Raises WeightsError if there is none."""
        tokenizer = self.load("AutoTokenizer", **options)
        if not tokenizer.is_fast:
            raise WeightsError(f"{self.name} has no fast tokenizer, so its tokens have no spans")
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    def _make(self, kind: str, config: Any, attention: str | None) -> tuple[Any, list[str]]:
        """Return a float32 model, and the names of the weights that are not in the checkpoint."""
        if self.seed is not None:
            return _draw(kind, config, self.seed, attention), []
        if self.file or self.is_local:
            files = [self.file] if self.file else [f for k in KINDS for f in self._folder.glob(k)]
            require_weights_for(self.name, files, lambda: _draw(kind, config, 0, attention))
        if self.file and self._rename:
            model, report = self._read(self.file, self._rename, kind, config)
        else:
            options = LOADING | {"attn_implementation": attention}
            model, report = self.load(kind, config=config, **options)
        misfits = [f"{key} {[*has]}, not {[*due]}" for key, has, due in report["mismatched_keys"]]
        if misfits:
            listed = "; ".join(sorted(misfits)[:10])
            why = f"{len(misfits)} weights of another shape: {listed}"
            raise WeightsError(f"{self.name} cannot be loaded: {why}")
        return model, sorted(report["missing_keys"])

    @staticmethod
    def _read(file: Path, rename: Rename, kind: str, config: Any) -> tuple[Any, Any]:
        """Return a model with a file's weights, and transformers' report. Raises WeightsError."""
        held = read_state_dict(file)
        cls = transformers_object(kind)
        try:
            state = dict(rename(held))
            loaded: tuple[Any, Any] = cls.from_pretrained(
                None, config=config, state_dict=state, **LOADING
            )
        except UNREADABLE as error:
            raise WeightsError(f"{file} does not fit {kind}: {error}") from error
        return loaded

    @property
    def _where(self) -> dict[str, Any]:
        """The place of the files, as keyword arguments of transformers' functions."""
        place = str(self._folder) if self.is_local else self._place
        return {
            "pretrained_model_name_or_path": place,
            "revision": None if self.is_local else self._revision,
            "local_files_only": self.is_local or bool(self._obstacle),
        }

    @cached_property
    def _obstacle(self) -> str:
        return hub_obstacle()

    def _require_no_timm(self, config: Mapping[str, Any]) -> None:
        if isinstance(config.get("pretrained_cfg"), Mapping) and "architecture" in config:
            path = str(self._folder.absolute()) if self.is_local else "./FOLDER for a copy of it"
            raise WeightsError(f"{self.name} is a model of timm; write timm:{path}")

    def _refusal(self, error: Exception) -> WeightsError:
        if self.is_local and "`model_type`" in str(error):
            return WeightsError(f"{self._place} has no {CONFIG} with a model_type; {COMPLETE}")
        if self.is_local:
            return WeightsError(f"{self._place} cannot be loaded: {error}")
        why = self._obstacle if self._obstacle and isinstance(error, OSError) else error
        return download_error(self._what, "the hub", why, self._instead)

    @property
    def _what(self) -> str:
        return f"{self._place}, revision {self._revision},"


class JointModel:
    """A model that reads a text with a picture, with an optional head that scores the pair."""

    def __init__(self, opened: OpenedModel, head: str, tokenizer: Any) -> None:
        self.model, self._has_head = opened.model, opened.has(head)
        self._device, self._dtype = self.model.device, self.model.dtype
        limit = opened.config.get_text_config().max_position_embeddings
        self._reader = TextReader(tokenizer, limit, self._device)
        self.context_length: int = self._reader.limit
        self.count_tokens = self._reader.count


def require_checkpoint(architecture: str, weights: str, revision: str) -> None:
    """Raise WeightsError if a `Checkpoint`'s files are neither here nor available; read nothing."""
    Checkpoint(architecture, weights, revision).require_here()


@cache
def cache_argument() -> str:
    """Return what forward passes call their keys and values: `cache` since transformers 5.24.

    A hook that looks for the other name would find no cache, and mask the wrong tokens.
    """
    from transformers.modeling_outputs import BaseModelOutputWithPast  # noqa: PLC0415 - slow

    names = {field.name for field in fields(BaseModelOutputWithPast)}
    return "cache" if "cache" in names else "past_key_values"


def transformers_object(name: str) -> Any:
    """Return an object of transformers by its name, such as "BertConfig".

    If a model's files name custom code and no argument states whether to run it, transformers
    would prompt at the terminal. After the first call of this function it refuses instead.
    """
    import transformers  # noqa: PLC0415 - takes seconds, which only a model that loads should cost

    transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0
    return getattr(transformers, name)


def _draw(kind: str, config: Any, seed: int, attention: str | None) -> Any:
    """Return a float32 model with seeded weights."""
    cls = transformers_object(kind)
    with seeded(seed):
        # The class's default attention; joint models have only eager attention.
        if not hasattr(cls, "from_config"):
            return cls(config)
        return cls.from_config(config, dtype=torch.float32, attn_implementation=attention)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Turn off transformers' progress bars, which would break the printed lines of a run."""
    bars = transformers_object("utils").logging
    if not bars.is_progress_bar_enabled():
        yield
        return
    bars.disable_progress_bar()
    try:
        yield
    finally:
        bars.enable_progress_bar()
