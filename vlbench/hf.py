"""Models in the format of the library transformers: from a folder, or from the hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from vlbench import hub
from vlbench.errors import WeightsError


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

        The library would draw those at random without a word.
        """
        model, report = self.load(
            kind,
            config=config,
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
        )
        return model, sorted(report["missing_keys"])

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


def draw_model(kind: Any, config: Any, seed: int) -> Any:
    """Return a float32 model with seeded weights; the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return kind.from_config(config, dtype=torch.float32, attn_implementation="eager")
