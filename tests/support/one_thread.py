"""What fits only a process of one thread, as `make test` starts it."""

import pytest
import torch

# OpenMP's other threads are not in the child, which waits for them for ever.
forks = pytest.mark.skipif(
    torch.get_num_threads() > 1, reason="forks a process that computes on several threads"
)
