"""Measure the visual semantic embedding probe: training as a ratio, patch retrieval in seconds.

Training: 51,637 pairs of 256 with 768 dimensions, batches of 512, against a bare PyTorch loop of
the same arithmetic on tensors in memory: a few epochs of each, since epochs cost the same. The
target is a ratio of at most 1.5. Patch retrieval: 80 categories of 100 images, 5 draws, after the
features; the target is under a second. Give the number of epochs to measure more than 2.
"""

import sys
import time

import torch
from measuring import Against, compare, seconds
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from vlbench.data.coco_files import Named
from vlbench.engine import Engine
from vlbench.probes.vsep.alignment import Objects
from vlbench.probes.vsep.network import Pairs, VsepTraining, train
from vlbench.probes.vsep.patch_retrieval import Pools, draw, retrieve

PAIRS, WIDTH, WORDS, BATCH = 51_637, 256, 768, 512
ROUNDS = 3


def bare(regions: Tensor, words: Tensor, epochs: int) -> None:
    """Train in plain PyTorch."""
    net = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, WORDS))
    ours = nn.LayerNorm(WORDS, elementwise_affine=False)
    scale = nn.Parameter(torch.tensor(2.659))
    adam = torch.optim.Adam([*net.parameters(), scale], lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(PAIRS).split(BATCH):
            adam.zero_grad()
            x, y = normalize(ours(net(regions[rows]))), normalize(ours(words[rows]))
            logits = x @ y.T * scale.exp().clamp(max=100)
            own = torch.arange(len(rows))
            ((cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2).backward()
            adam.step()


def measure_training(epochs: int) -> None:
    """Compare training with a bare loop."""
    rng = torch.Generator().manual_seed(0)
    pairs = Pairs(*(torch.randn(PAIRS, width, generator=rng) for width in (WIDTH, WORDS)))
    compare(
        Against(f"VSEP, {epochs} epochs", "bare PyTorch", 1.5),
        lambda: train(Engine.for_tests(), pairs, VsepTraining(epochs, BATCH)),
        lambda: bare(*pairs, epochs),
        ROUNDS,
        time.perf_counter,
    )


def measure_retrieval() -> None:
    """Print how long 80 categories of 100 images, 5 draws, take after the features."""
    rng = torch.Generator().manual_seed(0)
    images = 80 * 100 // 2
    names = [
        [Named(f"c{2 * i % 80}", "", 0, 0), Named(f"c{(2 * i + 1) % 80}", "", 0, 0)]
        for i in range(images)
    ]
    objects = Objects(
        torch.randn(images, 2, WIDTH, generator=rng),
        torch.randn(images, 2, WORDS, generator=rng),
        names,
    )
    pairs = Pairs(objects.regions[:512, 0], objects.words[:512, 0])
    net = train(Engine.for_tests(), pairs, VsepTraining(1, BATCH))
    pools = Pools(k=(1, 5), size=100, draws=5)
    for _ in range(ROUNDS):
        taken = seconds(
            lambda: retrieve([net], objects, draw(objects, pools, 0), pools.k), time.perf_counter
        )
        print(f"retrieval of 80 x 100 x {pools.draws}: {taken:.2f} s; target 1")


if __name__ == "__main__":
    measure_training(int(sys.argv[1]) if sys.argv[1:] else 2)
    measure_retrieval()
