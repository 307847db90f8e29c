"""Measure the matrix of class distances against what it cannot do without, as a ratio of CPU times.

1,000 classes x 50 images x 2,048 dimensions, in memory. The alternative is one product of the class
means with themselves (float64, as exact distances need) and one pass over the features (the mean
of each class, float32). The target is a ratio of at most 2.5, per dimension of 8. Peak memory is
beyond the features.
"""

import resource
from functools import partial

import torch
from measuring import Against, compare

from vlbench.probes.generalization.rdm import rdm_of_classes

CLASSES, IMAGES, WIDTH = 1_000, 50, 2_048
ROUNDS = 5
TARGETS = {"scalar": 2.5, "per_dimension": 8.0}


def peak_mb() -> float:
    """Return the largest resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the memory, and compare the times of both rules."""
    features = torch.rand(CLASSES * IMAGES, WIDTH, generator=torch.Generator().manual_seed(0))
    rows = list(torch.arange(len(features)).split(IMAGES))
    names = [str(i) for i in range(CLASSES)]
    blocks = features.view(CLASSES, IMAGES, WIDTH)
    means = blocks.mean(1).double()
    before = peak_mb()
    rdm_of_classes(features, rows, names, "scalar")
    print(f"peak memory beyond {before:.0f} MB: {peak_mb() - before:.0f} MB")

    def needed() -> None:
        blocks.mean(1)
        means @ means.T

    for rule, target in TARGETS.items():
        named = Against(f"matrix of class distances, {rule}", "the least work", target)
        compare(named, partial(rdm_of_classes, features, rows, names, rule), needed, ROUNDS)


if __name__ == "__main__":
    main()
