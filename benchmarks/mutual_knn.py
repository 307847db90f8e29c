"""Measure mutual k-nearest neighbours against float32 products and torch.topk, as a ratio.

5,000 examples of 768 random numbers, the second representation half of the first, one thread. The
alternative takes the ten nearest of each row in the same blocks, without regard to ties, and has no
jackknife. Both alternate in one process, whose CPU times are compared. The target is a ratio of at
most 1.3 for the value; there is none for its jackknife over 20 blocks.
"""

from functools import partial

import numpy as np
import torch
from measuring import Against, compare
from torch import Tensor
from torch.nn.functional import normalize

from vlbench.metrics.representation_similarity import BLOCK, draw_blocks, mutual_knn_left_out

EXAMPLES, WIDTH, K, BLOCKS = 5_000, 768, 10, 20
ROUNDS = 5
TARGET = 1.3


def nearest(x: Tensor) -> Tensor:
    """Return the K nearest others of each row, int64 [N, K]."""
    unit, near = normalize(x), []
    for rows in torch.split(torch.arange(len(x)), max(1, BLOCK // len(x))):
        similarity = unit[rows] @ unit.T
        similarity[torch.arange(len(rows)), rows] = -torch.inf
        near.append(similarity.topk(K).indices)
    return torch.cat(near)


def bare(x: Tensor, y: Tensor) -> Tensor:
    """Return the mean fraction of neighbours that x and y share."""
    return (nearest(x)[:, :, None] == nearest(y)[:, None]).sum() / K / len(x)


def main() -> None:
    """Compare the value, then the value with its jackknife."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    x, noise = (torch.randn(EXAMPLES, WIDTH, generator=rng) for _ in range(2))
    drawn = draw_blocks(EXAMPLES, BLOCKS, np.random.default_rng(0))
    for name, target, blocks in (("", TARGET, []), (f", jackknife of {BLOCKS}", None, drawn)):
        named = Against(f"mutual k-NN{name}", "float32 products and torch.topk", target)
        ours = partial(mutual_knn_left_out, x, x + noise, K, blocks)
        compare(named, ours, partial(bare, x, x + noise), ROUNDS)


if __name__ == "__main__":
    main()
