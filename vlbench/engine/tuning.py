"""How many images at a time, and in which layout: measured, since a guess costs up to half."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vlbench.data.records import Column
from vlbench.engine.passes import Place

SIZES = (8, 16, 32, 64, 128, 256)

# A larger batch, or another layout, must be this much faster to be worth it.
WORTH = 1.05


@torch.no_grad()
def tuned(place: Place, encode: Callable[[Tensor], Tensor], column: Column) -> Place:
    """Return a place with the batch size and layout for images like those of a column.

    On a GPU the largest batch that fits; on a CPU the fastest that was measured, in PyTorch's
    layout or with channels last. Measured on noise of the right size: no image is passed for it.
    """
    adapter: Any = getattr(encode, "__self__", encode)
    example = adapter.preprocess(column[0])
    if place.device.type == "cuda":
        return place._replace(batch_size=_largest(place, encode, example))
    best, best_speed = (SIZES[0], False), 0.0
    for last in (False, True):
        for size in SIZES:
            speed = _speed(encode, example, size, channels_last=last)
            if speed < best_speed * WORTH:
                break
            best, best_speed = (size, last), speed
    return place._replace(batch_size=best[0], channels_last=best[1])


def _speed(
    encode: Callable[[Tensor], Tensor], example: Tensor, size: int, *, channels_last: bool
) -> float:
    """Return images a second, or 0 where the model does not take the layout."""
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


def _largest(place: Place, encode: Callable[[Tensor], Tensor], example: Tensor) -> int:
    """Return the largest batch that the GPU's memory takes, at least 1."""
    fits = 1
    for size in SIZES:
        try:
            encode(torch.rand((size, *example.shape), device=place.device))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            break
        fits = size
    return fits
