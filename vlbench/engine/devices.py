"""Devices: settings for exact float32, reproducible numbers and memory reuse; batch settings."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from pathlib import Path
from typing import NamedTuple

import torch

# glibc's mallopt options: the size from which blocks are mapped apart, and what is given back.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
NEVER = 2**31 - 1

# What Linux tells a process of itself.
STATUS = Path("/proc/self/status")

# The batch size of what is never measured, such as texts.
USUAL = 32


def set_up(device: torch.device) -> None:
    """Make a GPU compute exact float32, and a CPU reuse its memory between batches.

    TF32, which a GPU uses for convolutions unasked, keeps 10 bits of the mantissa. Some of cuDNN's
    gradients of convolutions are added up in no fixed order, so that an attack along their sign
    would end elsewhere each time. Large buffers that glibc gives back after each batch must be
    cleared by the kernel before the next: keeping them made convolutional networks up to twice as
    fast, with the same numbers out.
    """
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.deterministic = True
    elif platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, NEVER)
        libc.mallopt(M_TRIM_THRESHOLD, NEVER)


def peak_memory_mb(device: torch.device) -> float:
    """Return the most memory that this process has had at once, in MB: the GPU's, or its own.

    Of a process that a large one started, Linux's `ru_maxrss` is that of the large one, so that it
    is asked only where the kernel tells no more, as in some sandboxes.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


def hardware(device: torch.device) -> str:
    """Return what computes: the GPU's name, or the processor's with its instructions."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = named[0] if named else platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


class ComputeSettings(NamedTuple):
    """Where the engine computes, how many rows per batch, and in which layout."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    batch_size: int | None = USUAL  # None: to be measured, with `tuning.tune`
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
