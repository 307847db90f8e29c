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
from vlbench.data.records import Data, labels
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows
from vlbench.metrics.agreement import agreement
from vlbench.metrics.features import all_parallel
from vlbench.metrics.items import Answers, Examples, item_table, join_items
from vlbench.metrics.matching import code_rule, greedy, hungarian, items_right, overlaps
from vlbench.metrics.statistics import wilson
from vlbench.probes.generalization.categories import in_parts
from vlbench.results import Outcome, Score

Labels = NDArray[np.int64]

RULES = {"accuracy": greedy, "accuracy_code_rule": code_rule, "accuracy_hungarian": hungarian}

# Random labellings that the chance level, and the floor of shuffled labels, are means over.
LABELLINGS = 100

# Up to so many images scikit-learn's path is taken whatever memory is free (it needs 5 GB).
SMALL = 12_000

# Peak bytes per pair of images, measured: of scikit-learn's path, and of the float32 path.
SKLEARN_BYTES = 35.0
FLOAT32_BYTES = 4.5

PARALLEL_NOTE = "all features point the same way: no clustering is better than another, so chance"
FLOAT32_NOTE = "clustered in float32: scikit-learn's own path did not fit into memory"


def clustering(
    model: ImageEncoder,
    data: Data,
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
    import psutil  # noqa: PLC0415 - planning a run must not wait for it

    if categories is not None:
        return in_parts(data, categories, lambda part: clustering(model, part, engine, seed=seed))
    test, k = data.splits["test"], len(data.classes)
    if len(test) < k:
        raise TooFewRows(f"the test split has {len(test)} images, {k} clusters asked", k)
    features, label = engine.features(model.encode_images, test["image"]), labels(test)
    tested = Tested(test["image"].examples(), data.classes, label)
    if all_parallel(features):
        scores = _scores(None, label, k, seed)
        counts = {"n": len(label), "ties": len(label)}
        items = tested.items(None, scores)
        return Outcome(scores=scores, counts=counts, notes=[PARALLEL_NOTE], items=items)
    key = {"what": "clusters", "features": features, "k": k, "seed": seed}
    found = engine.once(
        key,
        lambda: cluster(features, k, seed=seed, free=psutil.virtual_memory().available),
    )
    clusters = found["labels"].numpy()
    scores = _scores(clusters, label, k, seed)
    counts, items = {"n": len(label), "ties": 0}, tested.items(clusters, scores)
    return Outcome(scores=scores, counts=counts, notes=found["notes"], items=items)


class Tested(NamedTuple):
    """The test images, the names of classes, and the class of each image."""

    examples: Examples
    names: Sequence[str]
    label: Labels

    def items(self, clusters: Labels | None, scores: Sequence[Score]) -> Any:
        """Return the items of the accuracies: right where the cluster is assigned to the class.

        Without clusters, each image has the credit of chance.
        """
        n, k = len(self.label), len(self.names)
        if clusters is None:
            chance = {score.metric: score.value for score in scores if score.metric in RULES}
            return join_items(
                [item_table(self.examples, m, {}, np.full(n, x)) for m, x in chance.items()]
            )
        counts = overlaps(clusters, self.label, k)
        said = {metric: rule(counts)[clusters] for metric, rule in RULES.items()}
        return join_items(
            [
                item_table(
                    self.examples, m, {}, x == self.label, Answers(self.names, x, self.label)
                )
                for m, x in said.items()
            ]
        )


def fits_sklearn(images: int, free: float) -> bool:
    """Return whether scikit-learn's path fits into `free` bytes, or only the float32 path.

    Raises DataError, with the memory needed and the memory free, where neither fits.
    """
    if images <= SMALL or SKLEARN_BYTES * images**2 <= free:
        return True
    need = FLOAT32_BYTES * images**2
    if need > free:
        figures = f"needs {need / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free"
        raise DataError(f"clustering {images} images {figures}; end other programs or add memory")
    return False


def cluster(features: Tensor, k: int, *, seed: int, free: float) -> dict[str, Any]:
    """Return `labels` int64 [N] in 0..k-1 and `notes`, with `free` bytes of memory to use.

    The affinity is |cosine| of float32 [N, D] features, in float64 where scikit-learn computes it.
    """
    path = _by_sklearn if fits_sklearn(len(features), free) else _by_float32
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = path(features, k, seed)
    messages = {
        str(w.message) for w in caught if issubclass(w.category, (UserWarning, RuntimeWarning))
    }
    notes = [FLOAT32_NOTE] if path is _by_float32 else []
    return {"labels": torch.from_numpy(found.astype(np.int64)), "notes": notes + sorted(messages)}


def _by_sklearn(features: Tensor, k: int, seed: int) -> Labels:
    from sklearn.cluster import SpectralClustering  # noqa: PLC0415 - slow to import
    from sklearn.metrics.pairwise import cosine_similarity  # noqa: PLC0415

    affinity = np.abs(cosine_similarity(features.double().numpy()))
    spectral = SpectralClustering(n_clusters=k, affinity="precomputed", random_state=seed)
    return np.asarray(spectral.fit_predict(affinity))


def _by_float32(features: Tensor, k: int, seed: int) -> Labels:
    """Return the labels of scikit-learn's path, up to rounding, with one float32 [N, N] matrix.

    The smallest eigenvectors of the normalised Laplacian are the largest of the affinity with a
    zero diagonal, divided by the root of both degrees: no matrix needs to be factorised.
    """
    from scipy.sparse.linalg import eigsh  # noqa: PLC0415 - slow to import
    from sklearn.cluster import k_means  # noqa: PLC0415
    from sklearn.preprocessing import normalize  # noqa: PLC0415
    from sklearn.utils import check_random_state  # noqa: PLC0415

    random = check_random_state(seed)
    unit = normalize(features.numpy())
    affinity = unit @ unit.T
    np.abs(affinity, out=affinity)
    np.fill_diagonal(affinity, 0)
    root = np.sqrt(affinity.sum(0, dtype=np.float64))
    root[root == 0] = 1
    affinity /= root.astype(np.float32)
    affinity /= root.astype(np.float32)[:, None]
    start = random.uniform(-1, 1, len(unit)).astype(np.float32)
    _, vectors = eigsh(affinity, k, which="LA", v0=start)
    embedding = vectors[:, ::-1].astype(np.float64) / root[:, None]
    peaks = embedding[np.abs(embedding).argmax(0), np.arange(k)]
    _, found, _ = k_means(embedding * np.sign(peaks), k, random_state=random, n_init=10)
    return np.asarray(found)


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
