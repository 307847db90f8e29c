"""Measured batch size and memory layout: a wrong guess can halve the speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.data.records import Column
from vlbench.engine.devices import ComputeSettings

SIZES = (8, 16, 32, 64, 128, 256)

# A larger batch, or another layout, is used only if it is faster by this factor.
WORTH = 1.05


@torch.no_grad()
def tune(
    settings: ComputeSettings, encode: Callable[[Tensor], Tensor], column: Column
) -> ComputeSettings:
    """Return settings with the batch size and layout for images like a column's.

    On a GPU the largest batch that fits; on a CPU the fastest measured batch, in PyTorch's layout
    or with channels last. It is measured on noise of the right size, not on images.
    """
    adapter: Any = getattr(encode, "__self__", encode)
    example = adapter.preprocess(column[0])
    if settings.device.type == "cuda":
        return settings._replace(batch_size=_largest(settings, encode, example))
    plain = _fastest(encode, example, channels_last=False)
    last = _fastest(encode, example, channels_last=True)
    best = last if last.speed > plain.speed * WORTH else plain
    return settings._replace(batch_size=best.size, channels_last=best is last)


class _Measured(NamedTuple):
    """The speed of a batch size, in images per second."""

    speed: float
    size: int


def _fastest(
    encode: Callable[[Tensor], Tensor], example: Tensor, *, channels_last: bool
) -> _Measured:
    """Return the first batch size after which the next larger size is not clearly faster."""
    best = _Measured(0.0, SIZES[0])
    for size in SIZES:
        speed = _speed(encode, example, size, channels_last=channels_last)
        if speed < best.speed * WORTH:
            break
        best = _Measured(speed, size)
    return best


def _speed(
    encode: Callable[[Tensor], Tensor], example: Tensor, size: int, *, channels_last: bool
) -> float:
    """Return images per second, or 0 if the model does not support the layout."""
    noise = torch.rand((size, *example.shape))
    if channels_last:
        noise = noise.contiguous(memory_format=torch.channels_last)
    try:
        encode(noise)
        start = time.perf_counter()
        encode(noise)
    except RuntimeError:
        return 0.0
    return size / (time.perf_counter() - start)


def _largest(settings: ComputeSettings, encode: Callable[[Tensor], Tensor], example: Tensor) -> int:
    """Return the largest batch that fits into the GPU's memory, at least 1."""
    fits = 1
    for size in SIZES:
        try:
            encode(torch.rand((size, *example.shape), device=settings.device))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            break
        fits = size
    return fits
