"""Few-shot by nearest class mean. arXiv:2104.08313, section 3.1.

The paper names no distance. `accuracy` is the dot product with the un-normalised mean of normalised
features, as in the paper's code: a dispersed class has a short mean, which makes it less likely to
be chosen. This does not apply to `accuracy_cosine` and `accuracy_euclidean` (Snell et al. 2017,
arXiv:1703.05175, eq. 2). `draws` are the accuracies of the trials; their standard deviation (ddof
0) is the error bar of the code. Departures from the code: every draw is seeded; a trial has the
same order of the train images for all N, while the code draws again for each N; tied classes share
the credit, while in the code the first class wins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Data, TrainAndTestRows, fewest_rows, labels, require_classes
from vlbench.engine import Engine
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.items import Items, class_options
from vlbench.metrics.ranking import Choice, choose, join_choices
from vlbench.probes.by_layer import layered
from vlbench.probes.generalization.blind import blind_features
from vlbench.probes.generalization.categories import parted
from vlbench.results import Outcome, Positive

RULES = ("accuracy", "accuracy_cosine", "accuracy_euclidean")

# Scores computed at a time: as float32 they stay in a processor's cache.
BLOCK = 1 << 18

# Rows normalised at a time: their norms are computed from a copy in float64.
ROWS = 1 << 12


@layered()
@parted
def few_shot(
    model: ImageEncoder,
    data: TrainAndTestRows,
    engine: Engine,
    *,
    shots: list[Positive],
    trials: Positive = 10,
    seed: int = 0,
    floors: dict[str, str] | None = None,
) -> Outcome:
    """Return the test accuracy with means of N train images per class, for each N in `shots`.

    Each trial is an order of the train images, whose first N per class are used, so that examples
    are nested over N. Raises TooFewRows, with the class, if a class has fewer train images than the
    largest of `shots`. Train images that no trial draws are not encoded. The parts of `categories`
    are drawn with the same seed.

    Args:
        shots: numbers of train images per class, each 1 or more.
        trials: random orders of the train images, 1 or more; scores are means over them.
        seed: seed that draws the orders.
        floors: by name of a floor, a column; the floor is the same accuracy with features of this
            column instead of a model.
        categories: the classes of each part by its name, scored separately; None: no parts.
        layers: names of layers of the image encoder to score, or `all`; None scores the output.
    """
    if min(shots, default=0) < 1 or trials < 1:
        raise ValueError(f"shots {shots} and trials {trials}: all must be 1 or more")
    require_classes(data)
    drawn = _draw(labels(data.splits["train"]), data.classes, max(shots), trials, seed)
    used, places = np.unique(drawn, return_inverse=True)
    examples = torch.from_numpy(places.reshape(drawn.shape))
    splits = {"train": data.splits["train"].select(used.tolist()), "test": data.splits["test"]}
    features = {
        k: engine.features(model.encode_images, rows["image"]) for k, rows in splits.items()
    }
    metrics = _metrics(features, examples, shots, data)
    blind = {
        name: _metrics(blind_features(splits, column, engine), examples, shots, data)
        for name, column in (floors or {}).items()
    }
    for i, items in enumerate(metrics):
        choices = {name: of_rule[i].choice for name, of_rule in blind.items()}
        metrics[i] = items._replace(floors=choices)
    return Outcome(metrics=metrics)


def _metrics(
    features: dict[str, Tensor], examples: Tensor, shots: Sequence[int], data: Data
) -> list[Items]:
    """Return the choices from features of the test images and of the drawn train images.

    `examples` int64 [trials, C, shots] are places among the drawn train images.
    """
    test = data.splits["test"]
    support, queries = (normalise(features[split]) for split in ("train", "test"))
    lengths, right = queries.norm(dim=1), torch.from_numpy(labels(test))
    tested, options = test["image"].examples(), class_options(data.classes, right)
    metrics = []
    for n in shots:
        means = (support[rows[:, :n]].mean(1) for rows in examples)
        trials = [_classify(queries, lengths, part, right) for part in means]
        for rule, choices in zip(RULES, zip(*trials, strict=True), strict=True):
            choice = Choice(*(torch.stack(parts) for parts in zip(*choices, strict=True)))
            metrics.append(Items(rule, choice, tested, options, at={"shots": n}, random="trials"))
    return metrics


def _draw(
    label: NDArray[np.int64], classes: Sequence[str], shots: int, trials: int, seed: int
) -> NDArray[np.int64]:
    """Return the rows of each class's examples in each trial, int64 [trials, C, shots]."""
    counts = np.bincount(label, minlength=len(classes))
    scarce = int(counts.argmin())
    if counts[scarce] < shots:
        present = f"class '{classes[scarce]}' has {counted(counts[scarce], 'example')}"
        asked, enough = counted(shots, "shot"), fewest_rows(counts.tolist(), shots)
        raise TooFewRows(f"{present}, {asked} asked", enough, is_stratified=True)
    rng = np.random.default_rng(seed)
    first = np.cumsum(counts) - counts
    places = first[:, None] + np.arange(shots)
    orders = [rng.permutation(len(label)) for _ in range(trials)]
    return np.stack([o[np.argsort(label[o], kind="stable")][places] for o in orders])


def normalise(features: Tensor) -> Tensor:
    """Normalise features [N, D] to length 1, in place; a zero vector stays zero."""
    for part in torch.split(features, ROWS):
        # In float64 no square of a float32 overflows or underflows.
        norm = torch.linalg.vector_norm(part, dim=1, keepdim=True, dtype=torch.float64)
        part.div_(norm.masked_fill(norm == 0, 1.0).float())
    return features


def _classify(queries: Tensor, lengths: Tensor, means: Tensor, right: Tensor) -> list[Choice]:
    """Return the choice of each query (a test image and its length) under each rule."""
    rows = max(1, BLOCK // len(means))
    blocks = zip(*(torch.split(part, rows) for part in (queries, lengths, right)), strict=True)
    parts = [_choices(query, length, means, label) for query, length, label in blocks]
    return [join_choices(of_rule) for of_rule in zip(*parts, strict=True)]


def _choices(queries: Tensor, length: Tensor, means: Tensor, right: Tensor) -> list[Choice]:
    """Return the choices by dot product, cosine and Euclidean distance, from one matrix product."""
    dots = queries @ means.T
    norms = means.norm(dim=1)
    squares = norms.square()
    cosines = dots / norms.masked_fill(norms == 0, 1.0)
    # |x|^2 is the same for every class, so it matters only for the scale.
    nearness = (2 * dots).sub_(squares)
    return [
        choose(dots, right, scale=length * norms.amax()),
        choose(cosines, right, scale=length),
        choose(nearness, right, scale=length.square() + squares.amax()),
    ]
