"""Class discovery by spectral clustering. arXiv:2104.08313, section 3.2.

`accuracy` assigns clusters to classes as in the paper's text: one to one, the largest overlap
first. `accuracy_paper_code` assigns them as in the paper's code, `accuracy_hungarian` optimally.
Departure: k-means and the eigenvectors start from a seed. Other images would also have changed the
clusters. So random halves of the images are clustered again: the variance of their scores estimates
the variance of the whole score over other images (delete-half jackknife, Shao and Wu 1989; Politis
and Romano 1994). `compare` uses the differences of two models on the same halves.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Split, TestRows, labels, require_classes, same_images
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows, counted
from vlbench.metrics.intervals import fraction, plain_ends, student_quantile, wilson
from vlbench.metrics.items import Measured, outcome_of
from vlbench.metrics.ranking import all_parallel
from vlbench.probes.by_layer import layered
from vlbench.probes.generalization.categories import measured_images, parted
from vlbench.results import Outcome, Score
from vlbench.system.threads import single_thread, threads_for

# Classes of items, or numbers of items, int64.
Numbers = NDArray[np.int64]

RANGES = {"adjusted_rand": (-0.5, 1.0)}  # scikit-learn's adjusted_rand_score

# Number of random halves of the images that are clustered.
HALVES = 20

# Number of random labellings averaged for the chance level, and for the floor of shuffled labels.
LABELLINGS = 100

# Rows of affinities per block, which stays in the cache while it is multiplied twice.
ROWS = 64

# Eigenvalues of 0..1 that are closer than this are equal.
EQUAL = 1e-9

PARALLEL_NOTE = "all features point the same way, so every clustering is at chance"
FEW_NOTE = "fewer than two images per cluster: intervals do not cover other clusterings"
DISCONNECTED_NOTE = (
    "the affinity graph is not connected: clusters within its components may be arbitrary"
)


def overlaps(clusters: Numbers, label: Numbers, k: int) -> Numbers:
    """Return how many items each of k clusters shares with each of k classes, int64 [k, k]."""
    return np.bincount(clusters * k + label, minlength=k * k).reshape(k, k)


def items_right(counts: Numbers, label_of: Numbers) -> int:
    """Return the number of items whose cluster is assigned to their class."""
    assigned = np.flatnonzero(label_of >= 0)
    return int(counts[assigned, label_of[assigned]].sum())


def greedy(counts: Numbers) -> Numbers:
    """Return the class of each cluster, matching the largest overlap first, one cluster per class.

    For equal overlaps, the lower cluster goes first, then the lower class. A cluster that overlaps
    no remaining class has none.
    """
    clusters, classes = counts.nonzero()
    order = np.argsort(-counts[clusters, classes], kind="stable")
    label_of, taken = np.full(len(counts), -1), set()
    for cluster, label in zip(clusters[order].tolist(), classes[order].tolist(), strict=True):
        if label_of[cluster] < 0 and label not in taken:
            label_of[cluster] = label
            taken.add(label)
    return label_of


def code_rule(counts: Numbers) -> Numbers:
    """Return the class of each cluster if classes take their largest clusters (the paper's code).

    A cluster that several classes take goes to the last of them, a cluster that no class takes goes
    to class 0, and a class without items takes no cluster. For equal overlaps, a class takes the
    lower cluster (in the code: whichever the sort returns).
    """
    label_of = np.zeros(len(counts), dtype=np.int64)
    for label, cluster in enumerate(counts.argmax(0)):
        if counts[:, label].any():
            label_of[cluster] = label
    return label_of


def hungarian(counts: Numbers) -> Numbers:
    """Return the class of each cluster with the most items right, one cluster per class."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - for one probe

    # The rows are returned in order.
    return np.asarray(linear_sum_assignment(counts, maximize=True)[1])


Floats = NDArray[np.float64]

RULES = {"accuracy": greedy, "accuracy_paper_code": code_rule, "accuracy_hungarian": hungarian}

METRICS = (*RULES, "adjusted_rand", "normalized_mutual_information")

NO_HALVES = np.empty((0, len(METRICS)))


@layered()
@parted
def clustering(
    model: ImageEncoder,
    data: TestRows,
    engine: Engine,
    *,
    seed: int = 0,
) -> Outcome:
    """Return how well clusters of the test images' features, one per class, match the classes.

    If all features are parallel, every score is at chance. Raises TooFewRows for fewer images than
    classes, and DataError if the affinities do not fit into memory.

    Args:
        seed: seed that draws the starts of k-means and eigenvectors, the halves, chance and the
            floor.
        categories: the classes of each part by its name, scored separately; None: no parts.
        layers: names of layers of the image encoder to score, or `all`; None scores the output.
    """
    require_classes(data)
    test, k = data.splits["test"], len(data.classes)
    if len(test) < k:
        raise TooFewRows(
            f"the test split has {counted(len(test), 'image')}, fewer than {k} clusters", k
        )
    features, label = engine.features(model.encode_images, test["image"]), labels(test)
    if all_parallel(features):
        scores = _scores(None, NO_HALVES, label, k, seed)
        counts = {"n": len(label), "ties": len(label)}
        return outcome_of(_measured(test, data.classes, None, scores), counts, [PARALLEL_NOTE])
    key = {"what": "clusters", "features": features, "k": k, "seed": seed}
    clustered = engine.once(key, lambda: cluster(features, k, seed=seed))
    clusters, by_half, notes = clustered["labels"].numpy(), NO_HALVES, list(clustered["notes"])
    # Only the first copy of an image is used: copies in both halves would make them similar.
    firsts = np.array([first for first, *_ in same_images(test)])
    if len(firsts) < 2 * k:
        notes.append(FEW_NOTE)
    else:
        halves = firsts[draw_halves(test.select(firsts.tolist())["image"].ids, seed)]
        key |= {"what": "clusters of halves", "halves": torch.from_numpy(halves)}
        again = engine.once(key, lambda: cluster_halves(features, halves, k, seed)).numpy()
        parts = zip(again, label[halves], strict=True)
        by_half = np.stack([values_of(drawing, truth, k) for drawing, truth in parts])
    scores = _scores(clusters, by_half, label, k, seed)
    counts = {"n": len(label), "ties": 0}
    return outcome_of(_measured(test, data.classes, clusters, scores), counts, notes)


def _measured(
    test: Split, classes: Sequence[str], clusters: Numbers | None, scores: Sequence[Score]
) -> list[Measured]:
    """Return the scores; accuracies have examples.

    An example is right if its cluster is assigned to its class; without clusters, each example has
    chance credit.
    """
    label, measured = labels(test), list[Measured]()
    for score in scores:
        if score.metric not in RULES:
            measured.append(Measured(score))
        elif clusters is None:
            chance = np.full(len(label), score.value)
            measured.append(Measured(score, test["image"].examples(), chance))
        else:
            rule = RULES[score.metric]
            predicted = rule(overlaps(clusters, label, len(classes)))[clusters]
            is_right = predicted == label
            measured.append(measured_images(score, is_right, predicted, test, classes))
    return measured


def cluster(features: Tensor, k: int, *, seed: int) -> dict[str, Any]:
    """Return `labels` int64 [N] in 0..k-1 and `notes`: scikit-learn's labels, up to rounding.

    The affinity is |cosine| of float32 [N, D] features. The eigenvectors of the smallest
    eigenvalues of its normalised Laplacian are the eigenvectors of the largest eigenvalues of the
    affinity with a zero diagonal, divided by the root of both degrees. So no matrix is factorised,
    and half of the symmetric matrix is enough to multiply by it. Raises DataError if this half does
    not fit into memory.
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
    # Each connected component of the graph has an eigenvalue of 1.
    if isolated.any() or (values > 1 - EQUAL).sum() > 1:
        notes.append(DISCONNECTED_NOTE)
    with warnings.catch_warnings(record=True) as caught, single_thread():
        warnings.simplefilter("always")
        _, numbers, _ = k_means(vectors / root[:, None], k, random_state=random, n_init=10)
    notes += sorted({str(w.message) for w in caught if issubclass(w.category, UserWarning)})
    return {"labels": torch.from_numpy(numbers.astype(np.int64)), "notes": notes}


def cluster_halves(features: Tensor, halves: Numbers, k: int, seed: int) -> Tensor:
    """Cluster halves of the images again; return their labels, [HALVES, N // 2]."""
    parts = (features[torch.from_numpy(half)] for half in halves)
    return torch.stack([cluster(part, k, seed=seed)["labels"] for part in parts])


def peak_bytes(images: int, width: int, k: int) -> float:
    """Return the peak memory of clustering: half of a float64 matrix, and further arrays.

    Further arrays are the normalised features, and later the vectors of ARPACK (2 k + 1, at least
    20) and two copies of k vectors.
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
    """Return |cosine| of pairs, 0 on the diagonal: ROWS rows per block, from the diagonal on."""
    from sklearn.preprocessing import normalize  # noqa: PLC0415 - slow to import

    unit = normalize(features.double().numpy(), copy=False)
    blocks = []
    for first in range(0, len(unit), ROWS):
        with threads_for(ROWS, *unit[first:].shape):
            block = unit[first : first + ROWS] @ unit[first:].T
        np.fill_diagonal(block, 0)
        blocks.append(np.abs(block, out=block))
    return blocks


def _product(blocks: list[Floats], x: Floats) -> Floats:
    """Return the product of the symmetric matrix in `blocks` and a vector [N]."""
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
        # All eigenvalues are raised by 1, because ARPACK skips eigenvalues of 0.
        return x.ravel() + _product(blocks, x.ravel() / root) / root

    operator = LinearOperator((len(root), len(root)), raised, dtype=np.float64)
    with single_thread():
        values, vectors = eigsh(operator, k, which="LA", v0=start)
    return values[::-1] - 1, vectors[:, ::-1]


def draw_halves(ids: Sequence[str], seed: int) -> Numbers:
    """Return the places of random halves of the items, [HALVES, N // 2], the same for all models.

    They depend on the ids, but not on the order of the ids.
    """
    rng, order = np.random.default_rng(seed), np.argsort(ids)
    return np.stack([order[rng.permutation(len(ids))[: len(ids) // 2]] for _ in range(HALVES)])


def values_of(clusters: Numbers, label: Numbers, k: int) -> Floats:
    """Return the value of each of METRICS for two labellings [N] of the same items."""
    table = overlaps(clusters, label, k)
    accuracies = [items_right(table, rule(table)) / len(label) for rule in RULES.values()]
    return np.array([*accuracies, adjusted_rand(table), normalised_information(table)])


def adjusted_rand(table: Numbers) -> float:
    """Return the adjusted Rand index of a table of counts (Hubert and Arabie 1985, equation 5).

    If both labellings put all items into one cluster, or each item into a separate cluster, it is
    1.
    """
    both, rows, columns = (_pairs(x) for x in (table, table.sum(0), table.sum(1)))
    expected = rows * columns / max(_pairs(table.sum()), 1.0)
    most = (rows + columns) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


def normalised_information(table: Numbers) -> float:
    """Return the mutual information of a table of counts over the mean of both entropies.

    The mean is arithmetic, the default of scikit-learn. It is 1 if both labellings have one
    cluster.
    """
    joint = table / table.sum()
    alone = np.outer(joint.sum(1), joint.sum(0))
    mutual = float((joint[joint > 0] * np.log(joint[joint > 0] / alone[joint > 0])).sum())
    entropies = [_entropy(joint.sum(axis)) for axis in (0, 1)]
    return max(mutual, 0.0) / (sum(entropies) / 2) if any(entropies) else 1.0


def _pairs(counts: Numbers) -> float:
    return float((counts * (counts - 1) / 2).sum())


def _entropy(fractions: Floats) -> float:
    positive = fractions[fractions > 0]
    return float(-(positive * np.log(positive)).sum())


def _scores(
    labelling: Numbers | None, by_half: Floats, label: Numbers, k: int, seed: int
) -> list[Score]:
    """Return the scores of a labelling; None gets chance scores.

    `by_half` are the values of all metrics on halves of the images, [halves, metrics].
    """
    rng, n = np.random.default_rng(seed), len(label)
    random = [rng.integers(k, size=n) for _ in range(LABELLINGS)]
    chance = np.mean([values_of(labelled, label, k) for labelled in random], axis=0)
    chance[METRICS.index("adjusted_rand")] = 0.0
    values, shuffled = chance, chance
    if labelling is not None:
        values = values_of(labelling, label, k)
        permuted = [rng.permutation(labelling) for _ in range(LABELLINGS)]
        shuffled = np.mean([values_of(labelled, label, k) for labelled in permuted], axis=0)
    majority = float(np.bincount(label).max()) / n
    columns = (table.tolist() for table in (values, chance, shuffled, by_half.T))
    scores = []
    for metric, value, guessed, mixed, drawn in zip(METRICS, *columns, strict=True):
        fields: dict[str, Any] = {"unit": "index", "range": RANGES.get(metric)}
        if metric in RULES:
            fields = {"floors": {"majority_class": majority, "shuffled_labels": mixed}}
        fields |= {"value": value} | _interval(metric, value, drawn, n)
        scores.append(Score(metric=metric, n=n, chance=guessed, halves=drawn, **fields))
    return scores


def _interval(metric: str, value: float, drawn: Sequence[float], n: int) -> dict[str, Any]:
    """Return standard error and interval, from the values on halves if there are any."""
    if not drawn:
        return wilson(value * n, n)._asdict() if metric in RULES else {}
    variance, freedom = float(np.var(drawn, ddof=1)), len(drawn) - 1
    if metric in RULES:
        return fraction(value, variance, freedom, n)._asdict()
    stderr = math.sqrt(variance)
    return {"stderr": stderr, "ci95": plain_ends(value, stderr, student_quantile(freedom))}
