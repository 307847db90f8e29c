"""Measure the ranking of stored features against the bare product and torch.topk, as a ratio.

5,000 images x 25,000 captions x 512 random numbers, one thread, both ways: as in COCO's test split.
The alternative multiplies in the same blocks and takes the ten best of each row, which gives recall
without ties, median rank and average precision. Both alternate in one process, whose CPU times are
compared; each has a process of its own for its peak memory. The target is a ratio of at most 1.2,
and the memory of one block.
"""

import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import torch
from measuring import Against, compare
from torch import Tensor
from torch.nn.functional import normalize

from vlbench.probes.matching.pools import Pool, draw_pools
from vlbench.probes.matching.retrieval import BLOCK, Ranks, as_vectors, rank_by_vectors

IMAGES, CAPTIONS, WIDTH, GUESSES = 5_000, 5, 512, 10
ROUNDS = 5
TARGET = 1.2


class DotProduct:
    """Compares by the dot product, as towers do whose vectors are of length 1."""

    def similarity(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return [N, M] for [N, D] and [M, D]."""
        return images @ texts.T


def inputs() -> tuple[Tensor, Tensor, Pool]:
    """Return the vectors of images and captions, and one pool of all."""
    rng = torch.Generator().manual_seed(0)
    sizes = torch.full((IMAGES,), CAPTIONS)
    images, captions = (torch.randn(n, WIDTH, generator=rng) for n in (IMAGES, IMAGES * CAPTIONS))
    for x in (images, captions):  # in place: what is freed before a peak would hide it
        normalize(x, dim=1, out=x)
    return images, captions, draw_pools(sizes, None, 0)[0]


def ours(images: Tensor, captions: Tensor, pool: Pool) -> Ranks:
    """Return the ranks of both ways."""
    vectors = [as_vectors(x, torch.arange(len(x))) for x in (images, captions)]
    return rank_by_vectors(DotProduct(), *vectors, pool)


def bare(images: Tensor, captions: Tensor, _: Pool) -> list[Tensor]:
    """Return the ten best of each image and of each caption."""
    best = []
    for queries, candidates in ((images, captions), (captions, images)):
        blocks = torch.split(queries, BLOCK // len(candidates))
        best += [(block @ candidates.T).topk(GUESSES).indices for block in blocks]
    return best


VARIANTS: dict[str, Callable[..., object]] = {"bare": bare, "ours": ours}


def print_memory(variant: str) -> None:
    """Print what a variant needs beyond its inputs, in MB."""
    given = inputs()
    peaks = []
    for _ in range(2):
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        if len(peaks) == 1:
            VARIANTS[variant](*given)
    print(f"{variant}: peak memory beyond {peaks[0]:.0f} MB: {peaks[1] - peaks[0]:.0f} MB")


def main() -> None:
    """Print the memory of each, then compare them."""
    torch.set_num_threads(1)
    if sys.argv[1:]:
        print_memory(sys.argv[1])
        return
    print(f"a block: {BLOCK * 4 / 2**20:.0f} MB")
    for variant in VARIANTS:
        subprocess.run([sys.executable, __file__, variant], check=True)
    given = inputs()
    jobs = (partial(variant, *given) for variant in (ours, bare))
    compare(Against("ranks of retrieval", "product and torch.topk", TARGET), *jobs, ROUNDS)


if __name__ == "__main__":
    main()
