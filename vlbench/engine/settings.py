"""How the engine computes: device, batch size, loader workers and memory layout."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch

# The batch size of what is never measured, such as texts.
USUAL = 32


class ComputeSettings(NamedTuple):
    """Where the engine computes, how many rows per batch, and in which layout."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    batch_size: int | None = USUAL  # None: to be measured, with `tuning.tuned`
    workers: int = 0
    channels_last: bool = False

    @property
    def rows_per_batch(self) -> int:
        """The batch size, or the usual one where none has been measured."""
        return self.batch_size or USUAL


def loader_workers(device: torch.device) -> int:
    """Return how many processes load and preprocess images, so that a GPU does not wait for them.

    On a CPU the model itself takes every core, and one process is as fast.
    """
    if device.type != "cuda":
        return 0
    return min(8, max(1, len(os.sched_getaffinity(0)) - 1))
