"""Devices: settings for exact float32, reproducible results and memory reuse; batch settings."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from pathlib import Path
from typing import NamedTuple

import torch

# glibc's mallopt options: the sizes from which blocks are mapped, and from which they are released.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
NEVER = 2**31 - 1

# Linux's status file of the current process.
STATUS = Path("/proc/self/status")

# The batch size for inputs that are never measured, such as texts.
USUAL = 32


def set_up(device: torch.device) -> None:
    """Make a GPU compute exact float32, and a CPU reuse its memory between batches.

    TF32, which a GPU uses for convolutions by default, keeps 10 bits of the mantissa. Some of
    cuDNN's gradients of convolutions are summed in no fixed order, so an attack along their sign
    would end elsewhere each time. If glibc releases large buffers after each batch, the kernel must
    clear them before the next batch: keeping them made convolutional networks up to twice as fast,
    with identical results.
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
    """Return the peak memory of this process in MB: on the GPU, or in main memory.

    For a process that was started by a large process, Linux's `ru_maxrss` is the large process's,
    so it is used only if the kernel gives no other value, as in some sandboxes.
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
    """Return the GPU's name, or the processor's with its instruction set."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = named[0] if named else platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


class ComputeSettings(NamedTuple):
    """The engine's device, dtype, rows per batch, loader processes and memory layout."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    batch_size: int | None = USUAL  # None: to be measured, with `tuning.tune`
    workers: int = 0
    channels_last: bool = False

    @property
    def rows_per_batch(self) -> int:
        """The batch size, or the usual batch size if it has not been measured."""
        return self.batch_size or USUAL


def loader_workers(device: torch.device) -> int:
    """Return the number of processes that load and preprocess images for the device.

    A GPU should not wait for them. On a CPU the model takes every core, so it is 0.
    """
    if device.type != "cuda":
        return 0
    return min(8, max(1, len(os.sched_getaffinity(0)) - 1))
