"""The hint how to use all GPUs, for a run that would use one of several."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

import torch

# What the launchers of PyTorch and of Accelerate set, for one process too.
OF_LAUNCHERS = frozenset({"WORLD_SIZE", "ACCELERATE_MIXED_PRECISION"})


def unused_gpus(words: Sequence[str], device: str) -> str:
    """Return a hint with the command that uses all GPUs; empty if a run leaves none unused.

    `words` is the command line, `device` its option. GPUs that CUDA_VISIBLE_DEVICES hides do not
    count.
    """
    if device not in {"auto", "cuda"} or OF_LAUNCHERS & os.environ.keys():
        return ""
    # GPUs may be counted and still be unusable, as with a driver that is too old.
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < 2:
        return ""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(count)]
    command = shlex.join([*launcher, "-m", "vlbench", *words])
    return f"{count} GPUs are visible, and this run uses one of them; to use all: {command}"
