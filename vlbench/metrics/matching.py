"""Rules that assign clusters to classes. Each returns the number of items that are then right.

Each takes counts int [K, K]: items of each cluster (row) in each class (column).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def overlaps(clusters: NDArray[np.int64], label: NDArray[np.int64], k: int) -> Counts:
    """Return how many items each of k clusters shares with each of k classes, int64 [k, k]."""
    return np.bincount(clusters * k + label, minlength=k * k).reshape(k, k)


def greedy(counts: Counts) -> int:
    """Return the items right where the largest overlap is matched first, one cluster per class.

    Of equal overlaps, the lower cluster goes first, then the lower class.
    """
    clusters, classes = counts.nonzero()
    order = np.argsort(-counts[clusters, classes], kind="stable")
    free_clusters, free_classes = set(range(len(counts))), set(range(len(counts)))
    right = 0
    for cluster, label in zip(clusters[order].tolist(), classes[order].tolist(), strict=True):
        if cluster in free_clusters and label in free_classes:
            free_clusters.remove(cluster)
            free_classes.remove(label)
            right += int(counts[cluster, label])
    return right


def code_rule(counts: Counts) -> int:
    """Return the items right where each class takes its largest cluster, as the paper's code does.

    A cluster that several classes take goes to the last of them, a cluster that none takes goes to
    class 0, and a class without items takes none. Of equal overlaps, a class takes the lower
    cluster (in the code: whichever the sort gives).
    """
    label_of = np.zeros(len(counts), dtype=np.int64)
    for label, cluster in enumerate(counts.argmax(0)):
        if counts[:, label].any():
            label_of[cluster] = label
    return int(counts[np.arange(len(counts)), label_of].sum())


def hungarian(counts: Counts) -> int:
    """Return the most items that can be right, one cluster per class."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - for one probe

    return int(counts[linear_sum_assignment(counts, maximize=True)].sum())
