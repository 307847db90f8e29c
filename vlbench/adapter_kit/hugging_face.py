"""Models in the format of the library transformers: from a folder, or from the hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer
from transformers.utils import logging

from vlbench import hub
from vlbench.errors import WeightsError

# Eager attention, because the others give no weights; the library would only warn of misfits.
LOADING = {
    "dtype": torch.float32,
    "attn_implementation": "eager",
    "ignore_mismatched_sizes": True,
    "output_loading_info": True,
}


class Source:
    """Where a configuration, a tokenizer and weights come from: a folder, or the hub."""

    def __init__(self, architecture: str, weights: str, revision: str) -> None:
        given = weights not in {"pretrained", "random"}
        self.name = weights if given else architecture
        self._local = Path(self.name).expanduser().is_dir()
        if given and not self._local:
            raise WeightsError(f"no folder of weights at {self.name}")
        self._place = str(Path(self.name).expanduser()) if self._local else self.name
        self._revision = revision
        self._offline = self._local or hub.is_offline() or not hub.reachable()

    def load(self, kind: Any, **options: Any) -> Any:
        """Return what a class of the library loads from here. Raises WeightsError."""
        try:
            with _without_bars():
                return kind.from_pretrained(
                    self._place,
                    revision=None if self._local else self._revision,
                    local_files_only=self._offline,
                    trust_remote_code=False,
                    **options,
                )
        except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
            raise WeightsError(self._refusal(error)) from error

    def load_model(self, kind: Any, config: Any) -> tuple[Any, list[str]]:
        """Return a float32 model with eager attention, and the weights that its files lack.

        The library would draw those at random without a word. Raises WeightsError for weights of
        another shape.
        """
        return _checked(self.name, *self.load(kind, config=config, **LOADING))

    def refuse(self, lost: Sequence[str]) -> None:
        """Raise WeightsError where weights are lost."""
        if lost:
            raise WeightsError(f"{self.name} lacks {len(lost)} weights: {', '.join(lost[:10])}")

    def _refusal(self, error: Exception) -> str:
        if self._local:
            return f"{self.name} cannot be loaded: {error}"
        unreachable = self._offline and isinstance(error, OSError)
        why = "the hub cannot be reached" if unreachable else str(error)
        return (
            f"{self.name}, revision {self._revision}, cannot be downloaded from the hub: {why}; "
            "it can be given as a local folder: --model-args weights=PATH"
        )


def load_state(
    kind: Any, config: Any, state: Mapping[str, Any], file: Path
) -> tuple[Any, list[str]]:
    """Return a model with the weights of a state dict, under any names that the library knows.

    As `Source.load_model` does. Raises WeightsError for weights of another shape.
    """
    return _checked(
        str(file), *kind.from_pretrained(None, config=config, state_dict=dict(state), **LOADING)
    )


def draw_model(kind: Any, config: Any, seed: int) -> Any:
    """Return a float32 model with seeded weights; the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if not hasattr(kind, "from_config"):
            return kind(config)
        return kind.from_config(config, dtype=torch.float32, attn_implementation="eager")


def fast_tokenizer(source: Source) -> Any:
    """Return a tokenizer that pads on the right. Raises WeightsError where it gives no spans."""
    tokenizer = source.load(AutoTokenizer)
    if not tokenizer.is_fast:
        raise WeightsError(f"{source.name} has no fast tokenizer, which spans are read from")
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep the library from drawing a bar of its own among a run's lines."""
    bars: Any = logging  # untyped
    if not bars.is_progress_bar_enabled():
        yield
        return
    bars.disable_progress_bar()
    try:
        yield
    finally:
        bars.enable_progress_bar()


def _checked(name: str, model: Any, report: Mapping[str, Any]) -> tuple[Any, list[str]]:
    odd = [f"{key} {list(has)}, not {list(is_)}" for key, has, is_ in report["mismatched_keys"]]
    if odd:
        listed = "; ".join(sorted(odd)[:10])
        raise WeightsError(
            f"{name} cannot be loaded: {len(odd)} weights of another shape: {listed}"
        )
    return model, sorted(report["missing_keys"])
