"""The threads of a test's process, which are one unless it asks for two."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_info, threadpool_limits


def threads_now() -> set[int]:
    """Return the numbers of threads of PyTorch, BLAS and OpenMP, each once."""
    return {torch.get_num_threads(), *(library["num_threads"] for library in threadpool_info())}


@contextmanager
def two_threads() -> Iterator[None]:
    """Give all libraries two threads inside the block."""
    before = torch.get_num_threads()
    try:
        with threadpool_limits(2):
            torch.set_num_threads(2)
            yield
    finally:
        torch.set_num_threads(before)
