"""Rules that assign clusters to classes. Each returns the class of each cluster, int64 [K].

Each takes counts int [K, K]: items of each cluster (row) in each class (column). A cluster without
a class has -1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Classes = NDArray[np.int64]


def overlaps(clusters: NDArray[np.int64], label: NDArray[np.int64], k: int) -> Counts:
    """Return how many items each of k clusters shares with each of k classes, int64 [k, k]."""
    return np.bincount(clusters * k + label, minlength=k * k).reshape(k, k)


def items_right(counts: Counts, label_of: Classes) -> int:
    """Return the number of items whose cluster is assigned to their class."""
    assigned = np.flatnonzero(label_of >= 0)
    return int(counts[assigned, label_of[assigned]].sum())


def greedy(counts: Counts) -> Classes:
    """Return the classes where the largest overlap is matched first, one cluster per class.

    Of equal overlaps, the lower cluster goes first, then the lower class. A cluster that overlaps
    no class that is left has none.
    """
    clusters, classes = counts.nonzero()
    order = np.argsort(-counts[clusters, classes], kind="stable")
    label_of, taken = np.full(len(counts), -1), set()
    for cluster, label in zip(clusters[order].tolist(), classes[order].tolist(), strict=True):
        if label_of[cluster] < 0 and label not in taken:
            label_of[cluster] = label
            taken.add(label)
    return label_of


def code_rule(counts: Counts) -> Classes:
    """Return the classes where each class takes its largest cluster, as the paper's code does.

    A cluster that several classes take goes to the last of them, a cluster that none takes goes to
    class 0, and a class without items takes none. Of equal overlaps, a class takes the lower
    cluster (in the code: whichever the sort gives).
    """
    label_of = np.zeros(len(counts), dtype=np.int64)
    for label, cluster in enumerate(counts.argmax(0)):
        if counts[:, label].any():
            label_of[cluster] = label
    return label_of


def hungarian(counts: Counts) -> Classes:
    """Return the classes with the most items right, one cluster per class."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - for one probe

    # The rows come back in order.
    return np.asarray(linear_sum_assignment(counts, maximize=True)[1])
