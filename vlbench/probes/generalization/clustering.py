"""Class discovery by spectral clustering. arXiv:2104.08313, section 3.2.

`accuracy` names clusters after classes as the paper says, one to one, the largest overlap first;
`accuracy_code_rule` does as the paper's code, `accuracy_hungarian` as well as can be done.
Departure: k-means and the eigenvectors start from a seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import psutil
import sklearn
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from sklearn.cluster import SpectralClustering, k_means
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from torch import Tensor

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Data, labels
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows
from vlbench.metrics.matching import code_rule, greedy, hungarian, overlaps
from vlbench.metrics.ranking import TIED
from vlbench.metrics.statistics import wilson
from vlbench.results import Outcome, Score

Labels = NDArray[np.int64]

RULES = {"accuracy": greedy, "accuracy_code_rule": code_rule, "accuracy_hungarian": hungarian}

# Labellings that chance, and the floor of shuffled labels, are means of.
LABELLINGS = 100

# Up to here scikit-learn's path is taken without asking how much memory is free (5 GB).
SMALL = 12_000

# Peak bytes for each pair of images, measured: scikit-learn's path, and the one in float32.
SKLEARN_BYTES = 35.0
FLOAT32_BYTES = 4.5

ALIKE_NOTE = "all features point the same way: no clustering is better than another, so chance"
FLOAT32_NOTE = "clustered in float32: scikit-learn's own path did not fit into memory"


def clustering(model: ImageEncoder, data: Data, engine: Engine, *, seed: int = 0) -> Outcome:
    """Return how well as many clusters as classes, of the test images' features, are the classes.

    Where all features point the same way, every score is chance. Raises TooFewRows for fewer
    images than classes, DataError where the affinities do not fit into memory.
    """
    test, k = data.splits["test"], len(data.classes)
    if len(test) < k:
        raise TooFewRows(f"the test split has {len(test)} images, {k} clusters asked")
    features, label = engine.features(model.encode_images, test["image"]), labels(test)
    if alike(features):
        scores = _scores(None, label, k, seed)
        counts = {"n": len(label), "ties": len(label)}
        return Outcome(scores=scores, counts=counts, notes=[ALIKE_NOTE])
    key = {"what": "clusters", "features": features, "k": k, "seed": seed}
    found = engine.once(
        key | {"scikit-learn": sklearn.__version__},
        lambda: cluster(features, k, seed=seed, free=psutil.virtual_memory().available),
    )
    scores = _scores(found["labels"].numpy(), label, k, seed)
    return Outcome(scores=scores, counts={"n": len(label), "ties": 0}, notes=found["notes"])


def alike(features: Tensor) -> bool:
    """Return whether all [N, D] features are zero, or point the same or the opposite way.

    So it is where every |cosine| to the first is within 1e-6 of 1: affinities that are tied.
    """
    unit = normalize(features.double().numpy(), copy=False)
    return bool((np.abs(unit @ unit[0]) >= 1 - TIED).all()) or not unit.any()


def fits_sklearn(images: int, free: float) -> bool:
    """Return whether scikit-learn's path fits into `free` bytes, or only the one in float32.

    Raises DataError, with what is needed and what is free, where neither does.
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

    The affinity is |cosine| of float32 [N, D] features, in float64 as scikit-learn computes it.
    """
    path = _by_sklearn if fits_sklearn(len(features), free) else _by_float32
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = path(features, k, seed)
    said = {str(w.message) for w in caught if issubclass(w.category, (UserWarning, RuntimeWarning))}
    notes = [FLOAT32_NOTE] if path is _by_float32 else []
    return {"labels": torch.from_numpy(found.astype(np.int64)), "notes": notes + sorted(said)}


def _by_sklearn(features: Tensor, k: int, seed: int) -> Labels:
    affinity = np.abs(cosine_similarity(features.double().numpy()))
    spectral = SpectralClustering(n_clusters=k, affinity="precomputed", random_state=seed)
    return np.asarray(spectral.fit_predict(affinity))


def _by_float32(features: Tensor, k: int, seed: int) -> Labels:
    """Return what scikit-learn's path returns, up to rounding, with one float32 [N, N] matrix.

    The smallest eigenvectors of the normalised Laplacian are the largest of the affinity divided by
    the root of both degrees, its diagonal zero: no matrix needs to be factorised.
    """
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
    """Return the scores of a labelling, or of none, which is chance."""
    rng = np.random.default_rng(seed)
    random = [rng.integers(k, size=len(label)) for _ in range(LABELLINGS)]
    chance = _shares(random, label, k)
    value, shuffled = chance, chance
    if found is not None:
        value = _shares([found], label, k)
        shuffled = _shares((rng.permutation(found) for _ in range(LABELLINGS)), label, k)
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


def _shares(labellings: Iterable[Labels], label: Labels, k: int) -> NDArray[np.float64]:
    """Return the mean accuracy of labellings under each rule, [rules]."""
    counts = (overlaps(labelling, label, k) for labelling in labellings)
    right = [[rule(table) for rule in RULES.values()] for table in counts]
    return np.asarray(np.mean(right, axis=0) / len(label))


def _agreements(found: Labels | None, label: Labels, random: list[Labels]) -> list[Score]:
    """Return the indices that need no matching; their chance is 0 by definition, or measured."""
    by_chance = float(np.mean([normalized_mutual_info_score(label, r) for r in random]))
    rand, information = 0.0, by_chance
    if found is not None:
        rand = float(adjusted_rand_score(label, found))
        information = float(normalized_mutual_info_score(label, found))
    n = len(label)
    return [
        Score(metric="adjusted_rand", value=rand, n=n, chance=0.0, unit="index"),
        Score(
            metric="normalized_mutual_information",
            value=information,
            n=n,
            chance=by_chance,
            unit="index",
        ),
    ]
