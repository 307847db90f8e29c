"""Class discovery by spectral clustering. arXiv:2104.08313, section 3.2.

`accuracy` assigns clusters to classes as in the paper's text: one to one, the largest overlap
first. `accuracy_code_rule` assigns them as in the paper's code, `accuracy_hungarian` optimally.
Departure: k-means and the eigenvectors start from a seed. All intervals are those of the clustering
as it was found: of what other images would have changed in it, they say nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import TestRows, labels
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows, counted
from vlbench.metrics.intervals import Z95, Estimate, wilson
from vlbench.metrics.items import Answers, Examples, Measured, outcome_of
from vlbench.metrics.ranking import all_parallel
from vlbench.probes.generalization.categories import in_parts
from vlbench.results import Outcome, Score

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


Floats = NDArray[np.float64]

# The least that each index can be; the most is 1.
LEAST = {"adjusted_rand": -1.0, "normalized_mutual_information": 0.0}


def agreement(clusters: NDArray[np.int64], label: NDArray[np.int64]) -> dict[str, Estimate]:
    """Return both indices of two labellings [N] of the same items.

    The error is that of a labelling that stays as it is: how much clusters would differ if they
    were found anew in other items is no part of it. It is the jackknife's, each item left out once.
    A bootstrap will not do: an item that is drawn twice agrees with itself, and fills no cell of
    the table anew. In tables of 400 to 2,500 cells and as few items its error of the information is
    17 to 29 % too small. The interval is +-1.96 errors, cut to what the index can be. Labellings
    that agree wholly have an error of 0.
    """
    cells, counts = np.unique(np.stack([clusters, label], 1), axis=0, return_counts=True)
    places = [np.unique(one, return_inverse=True)[1].ravel() for one in cells.T]
    # The number of items in each cell, cluster and class, and for each cell those of its own.
    groups = [counts, *(np.bincount(place, weights=counts) for place in places)]
    own = [counts, *(group[place] for group, place in zip(groups[1:], places, strict=True))]
    n = len(label)
    pairs = [_pairs(group).sum() for group in groups]
    logs = [_logs(group).sum() for group in groups]
    whole = _indices(n, pairs, logs)
    less = _indices(
        n - 1,
        [total - _pairs(x) + _pairs(x - 1) for total, x in zip(pairs, own, strict=True)],
        [total - _logs(x) + _logs(x - 1) for total, x in zip(logs, own, strict=True)],
    )
    return {name: _jackknifed(name, float(whole[name]), less[name], counts) for name in LEAST}


def _pairs(sizes: NDArray[Any]) -> Floats:
    """Return how many ordered pairs of items lie in groups of these sizes."""
    return np.asarray(sizes * (sizes - 1.0))


def _logs(sizes: NDArray[Any]) -> Floats:
    """Return x ln x, which is 0 for an empty group."""
    return np.asarray(sizes * np.log(np.maximum(sizes, 1)))


def _indices(n: int, pairs: list[Any], logs: list[Any]) -> dict[str, Floats]:
    """Return both indices of n items, from sums over cells, clusters and classes."""
    same, of_clusters, of_classes = pairs
    expected = of_clusters * of_classes / max(n * (n - 1), 1)
    together, *alone = (np.log(max(n, 1)) - total / max(n, 1) for total in logs)
    entropies = alone[0] + alone[1]
    return {
        "adjusted_rand": _ratio(same - expected, (of_clusters + of_classes) / 2 - expected),
        "normalized_mutual_information": _ratio(entropies - together, entropies / 2),
    }


def _ratio(parts: Any, wholes: Any) -> Floats:
    """Return parts / wholes; labellings whose whole is 0, such as one group each, agree: 1."""
    defined = np.abs(wholes) > 1e-12
    return np.where(defined, parts / np.where(defined, wholes, 1.0), 1.0)


def _jackknifed(name: str, value: float, less: Floats, counts: NDArray[np.int64]) -> Estimate:
    """Return an index with its error; `less` is the index without an item of each cell."""
    n = int(counts.sum())
    mean = (counts * less).sum() / n
    stderr = float(np.sqrt((n - 1) / n * (counts * (less - mean) ** 2).sum()))
    low, high = np.clip([value - Z95 * stderr, value + Z95 * stderr], LEAST[name], 1.0).tolist()
    return Estimate(value, stderr, (low, high))


Labels = NDArray[np.int64]

RULES = {"accuracy": greedy, "accuracy_code_rule": code_rule, "accuracy_hungarian": hungarian}

# Random labellings that the chance level, and the floor of shuffled labels, are means over.
LABELLINGS = 100

# Rows of affinities per block, which stays in the cache while it is multiplied twice.
ROWS = 64

# Eigenvalues of 0..1 that are closer than this are equal.
EQUAL = 1e-9

PARALLEL_NOTE = "all features point the same way: no clustering is better than another, so chance"
DISCONNECTED_NOTE = (
    "the graph of affinities is not connected: clusters may be arbitrary within its parts"
)


def clustering(
    model: ImageEncoder,
    data: TestRows,
    engine: Engine,
    *,
    seed: int = 0,
    categories: dict[str, list[str]] | None = None,
) -> Outcome:
    """Return how well the clusters of the test images' features, one per class, fit the classes.

    Where all features point the same way, every score is chance. Raises TooFewRows for fewer
    images than classes, DataError where the affinities do not fit into memory. `categories` names
    parts of the classes, whose images are clustered apart.
    """
    if categories is not None:
        return in_parts(data, categories, lambda part: clustering(model, part, engine, seed=seed))
    test, k = data.splits["test"], len(data.classes)
    if len(test) < k:
        raise TooFewRows(f"the test split has {counted(len(test), 'image')}, {k} clusters asked", k)
    features, label = engine.features(model.encode_images, test["image"]), labels(test)
    tested = Tested(test["image"].examples(), data.classes, label)
    if all_parallel(features):
        scores = _scores(None, label, k, seed)
        counts = {"n": len(label), "ties": len(label)}
        return outcome_of(tested.measured(None, scores), counts, [PARALLEL_NOTE])
    key = {"what": "clusters", "features": features, "k": k, "seed": seed}
    found = engine.once(key, lambda: cluster(features, k, seed=seed))
    clusters = found["labels"].numpy()
    scores = _scores(clusters, label, k, seed)
    counts = {"n": len(label), "ties": 0}
    return outcome_of(tested.measured(clusters, scores), counts, found["notes"])


class Tested(NamedTuple):
    """The test images, the names of classes, and the class of each image."""

    examples: Examples
    names: Sequence[str]
    label: Labels

    def measured(self, clusters: Labels | None, scores: Sequence[Score]) -> list[Measured]:
        """Return the scores, the accuracies with their examples.

        An example is right where its cluster is assigned to its class; without clusters, each has
        the credit of chance.
        """
        counts = None if clusters is None else overlaps(clusters, self.label, len(self.names))
        measured = []
        for score in scores:
            if score.metric not in RULES:
                measured.append(Measured(score))
            elif clusters is None or counts is None:
                chance = np.full(len(self.label), score.value)
                measured.append(Measured(score, self.examples, chance))
            else:
                said = RULES[score.metric](counts)[clusters]
                answers = Answers(self.names, said, self.label)
                measured.append(Measured(score, self.examples, said == self.label, answers))
        return measured


def cluster(features: Tensor, k: int, *, seed: int) -> dict[str, Any]:
    """Return `labels` int64 [N] in 0..k-1 and `notes`: scikit-learn's labels, up to rounding.

    The affinity is |cosine| of float32 [N, D] features. The smallest eigenvectors of its normalised
    Laplacian are the largest of the affinity with a zero diagonal, divided by the root of both
    degrees: no matrix is factorised, and half of a symmetric one is enough to multiply by it.
    Raises DataError where that half does not fit into memory.
    """
    from sklearn.cluster import k_means  # noqa: PLC0415 - slow to import
    from sklearn.utils import check_random_state  # noqa: PLC0415

    n, random, notes = len(features), check_random_state(seed), []
    if k == n:
        return {"labels": torch.arange(n), "notes": []}
    _require_memory(n, features.shape[1], k)
    blocks = _affinities(features)
    root = np.sqrt(_product(blocks, np.ones(n)))
    isolated = root == 0
    root[isolated] = 1
    values, vectors = _largest(blocks, root, k, random.uniform(-1, 1, n))
    # Each connected part of the graph has an eigenvalue of 1.
    if isolated.any() or (values > 1 - EQUAL).sum() > 1:
        notes.append(DISCONNECTED_NOTE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, found, _ = k_means(vectors / root[:, None], k, random_state=random, n_init=10)
    notes += sorted({str(w.message) for w in caught if issubclass(w.category, UserWarning)})
    return {"labels": torch.from_numpy(found.astype(np.int64)), "notes": notes}


def peak_bytes(images: int, width: int, k: int) -> float:
    """Return the peak memory of clustering: half of a float64 matrix, and what stands beside it.

    That is the features of length one, and later the vectors of ARPACK (2 k + 1, at least 20) and
    two copies of k of them.
    """
    lanczos = min(max(2 * k + 1, 20), images)
    beside = images * max(width, lanczos + 2 * k) + lanczos**2
    return 8 * (images * (images + ROWS) / 2 + beside)


def _require_memory(images: int, width: int, k: int) -> None:
    import psutil  # noqa: PLC0415 - planning a run must not wait for it

    need, free = peak_bytes(images, width, k), psutil.virtual_memory().available
    if need > free:
        figures = f"needs {need / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free"
        raise DataError(f"clustering {images} images {figures}; end other programs or add memory")


def _affinities(features: Tensor) -> list[Floats]:
    """Return |cosine| of pairs, 0 on the diagonal: ROWS rows per block, from its first row on."""
    from sklearn.preprocessing import normalize  # noqa: PLC0415 - slow to import

    unit = normalize(features.double().numpy(), copy=False)
    blocks = []
    for first in range(0, len(unit), ROWS):
        block = unit[first : first + ROWS] @ unit[first:].T
        np.fill_diagonal(block, 0)
        blocks.append(np.abs(block, out=block))
    return blocks


def _product(blocks: list[Floats], x: Floats) -> Floats:
    """Return the product of the symmetric matrix in blocks and a vector [N]."""
    result, first = np.zeros(len(x)), 0
    for block in blocks:
        last = first + len(block)
        result[first:last] += block @ x[first:]
        result[last:] += x[first:last] @ block[:, len(block) :]
        first = last
    return result


def _largest(blocks: list[Floats], root: Floats, k: int, start: Floats) -> tuple[Floats, Floats]:
    """Return the k largest eigenvalues of the matrix over both roots, and vectors [N, k]."""
    from scipy.sparse.linalg import LinearOperator, eigsh  # noqa: PLC0415 - slow to import

    def raised(x: Floats) -> Floats:
        # All eigenvalues are raised by one: ARPACK skips those of zero.
        return x.ravel() + _product(blocks, x.ravel() / root) / root

    operator = LinearOperator((len(root), len(root)), raised, dtype=np.float64)
    values, vectors = eigsh(operator, k, which="LA", v0=start)
    return values[::-1] - 1, vectors[:, ::-1]


def _scores(found: Labels | None, label: Labels, k: int, seed: int) -> list[Score]:
    """Return the scores of a labelling; None has the scores of chance."""
    rng = np.random.default_rng(seed)
    random = [rng.integers(k, size=len(label)) for _ in range(LABELLINGS)]
    chance = _accuracies(random, label, k)
    value, shuffled = chance, chance
    if found is not None:
        value = _accuracies([found], label, k)
        shuffled = _accuracies((rng.permutation(found) for _ in range(LABELLINGS)), label, k)
    majority = np.bincount(label).max() / len(label)
    accuracies = [
        Score(
            metric=rule,
            n=len(label),
            chance=float(chance[i]),
            floors={"majority_class": float(majority), "shuffled_labels": float(shuffled[i])},
            **wilson(float(value[i]) * len(label), len(label))._asdict(),
        )
        for i, rule in enumerate(RULES)
    ]
    return accuracies + _agreements(found, label, random)


def _accuracies(labellings: Iterable[Labels], label: Labels, k: int) -> NDArray[np.float64]:
    """Return the mean accuracy of labellings under each rule, [rules]."""
    counts = (overlaps(labelling, label, k) for labelling in labellings)
    right = [[items_right(table, rule(table)) for rule in RULES.values()] for table in counts]
    return np.asarray(np.mean(right, axis=0) / len(label))


def _agreements(found: Labels | None, label: Labels, random: list[Labels]) -> list[Score]:
    """Return the indices that need no matching; their chance is 0 by definition, or measured.

    Without clusters they are chance, and have no interval.
    """
    from sklearn.metrics import (  # noqa: PLC0415 - slow to import
        adjusted_rand_score,
        normalized_mutual_info_score,
    )

    by_chance = float(np.mean([normalized_mutual_info_score(label, r) for r in random]))
    rules = {
        "adjusted_rand": (adjusted_rand_score, 0.0),
        "normalized_mutual_information": (normalized_mutual_info_score, by_chance),
    }
    estimates = {} if found is None else agreement(found, label)
    ranges = {"adjusted_rand": (-0.5, 1.0)}  # scikit-learn's adjusted_rand_score
    scores = []
    for metric, (index, chance) in rules.items():
        value = chance if found is None else float(index(label, found))
        bounds = estimates[metric]._asdict() if found is not None else {}
        parts = bounds | {"value": value, "range": ranges.get(metric)}
        scores.append(Score(metric=metric, n=len(label), chance=chance, unit="index", **parts))
    return scores
