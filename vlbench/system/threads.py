"""Threads of PyTorch, BLAS and OpenMP: all in a model's passes, a single thread in a probe's code.

Threads that wait for the next of many small products would occupy the processor. The number of
threads depends only on sizes, so every run gives the same bytes. "All" is the number of threads
before the probe, as set by the user.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import NamedTuple

import torch
from threadpoolctl import ThreadpoolController

# Above this number of multiplications, a matrix product is faster with all threads.
LARGE = 1e9

PYTORCH = "PyTorch"


class _Threads(NamedTuple):
    """The numbers that "all threads" stands for, by library, and whether one thread computes."""

    all: dict[str, int]
    is_single: bool


_THREADS: ContextVar[_Threads | None] = ContextVar("threads", default=None)


@contextmanager
def single_thread() -> Iterator[None]:
    """Compute with one thread inside the block, in libraries loaded so far."""
    with _compute(single=True):
        yield


@contextmanager
def all_threads() -> Iterator[None]:
    """Compute with all threads inside the block: as many as before the probe."""
    with _compute(single=False):
        yield


@contextmanager
def threads_for(*sizes: int) -> Iterator[None]:
    """Compute a matrix product with all threads if it is large, otherwise with a single thread.

    The product of the `sizes` is its number of multiplications.
    """
    with _compute(single=math.prod(sizes) < LARGE):
        yield


@contextmanager
def _compute(*, single: bool) -> Iterator[None]:
    before = _THREADS.get()
    now = _Threads(before.all if before else {}, is_single=single)
    token = _THREADS.set(now)
    try:
        _set(now)
        yield
    finally:
        _THREADS.reset(token)
        _set(before or now._replace(is_single=False))


def _set(threads: _Threads) -> None:
    """Set the threads of all libraries; counts are remembered before they become 1."""
    count = torch.get_num_threads()
    if threads.is_single and count > 1:
        threads.all[PYTORCH] = count
        torch.set_num_threads(1)
    elif not threads.is_single and count != threads.all.get(PYTORCH, count):
        torch.set_num_threads(threads.all[PYTORCH])
    for library in _libraries(len(sys.modules)).lib_controllers:
        count = library.num_threads
        if threads.is_single and count > 1:
            threads.all[library.filepath] = count
            library.set_num_threads(1)
        elif not threads.is_single and count != threads.all.get(library.filepath, count):
            library.set_num_threads(threads.all[library.filepath])


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """Return a controller of the libraries' threads; loading a module may add libraries."""
    return ThreadpoolController()
