"""Classification by the nearest train images. Caron et al. 2021, arXiv:2104.14294, section 3.2.

The vote of a train image with cosine similarity s to the test image has weight exp(s /
temperature), as in Wu et al. 2018, arXiv:1805.01978, section 3.4. Departure: train images as near
as the k-th share the remaining places, while in the authors' code the order of rows decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import TrainAndTestRows, require_classes
from vlbench.engine import Engine
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.items import Items, class_options
from vlbench.metrics.ranking import TIED, Choice, all_equal, choose, join_choices
from vlbench.probes.by_layer import layered
from vlbench.probes.generalization.categories import parted
from vlbench.probes.generalization.few_shot import normalise
from vlbench.probes.generalization.linear import train_and_test_labels
from vlbench.probes.generalization.transfer import EQUAL_FEATURES_NOTE
from vlbench.results import Outcome, Positive
from vlbench.system.threads import threads_for

# Similarities computed at a time.
BLOCK = 1 << 24

# Extra neighbours found at first, in case some are tied with the k-th.
MORE = 8


@layered()
@parted
def knn(
    model: ImageEncoder,
    data: TrainAndTestRows,
    engine: Engine,
    *,
    k: Sequence[Positive] = (1, 5, 20, 200),
    temperature: float = 0.07,
) -> Outcome:
    """Return how often the class with most votes of the k nearest train images is right.

    If t train images are as similar as the k-th, within 1e-6, and r places are left for them, each
    counts r / t of its vote. Tied classes share the credit. If all test images have the same
    features, within 1e-6, all classes are tied: the votes would only reflect which class is common.
    Raises TooFewRows for fewer train images than the largest `k`, and for a class without train
    images.

    Args:
        k: numbers of nearest train images that vote, each 1 or more, scored separately.
        temperature: a vote is exp(cosine / temperature), up to a factor; above 0.
        categories: the classes of each part by its name, scored separately; None: no parts.
        layers: names of layers of the image encoder to score, or `all`; None scores the output.
    """
    if min(k, default=0) < 1 or temperature <= 0:
        raise ValueError(
            f"k {list(k)} and temperature {temperature}: each k must be 1 or more, and the "
            "temperature above 0"
        )
    require_classes(data)
    images = len(data.splits["train"])
    if images < max(k):
        present = counted(images, "train image")
        raise TooFewRows(f"{present} for the {max(k)} nearest (k {max(k)})", max(k))
    train_label, right = train_and_test_labels(data)
    train, test = (
        normalise(engine.features(model.encode_images, data.splits[split]["image"]))
        for split in ("train", "test")
    )
    equal, classes = all_equal(test), len(data.classes)
    parts: list[list[Choice]] = []
    rows = max(1, BLOCK // len(train))
    for queries, label in zip(torch.split(test, rows), torch.split(right, rows), strict=True):
        votes = torch.zeros(len(k), len(queries), classes, dtype=torch.float64)
        if not equal:
            with threads_for(len(queries), *train.shape):
                similarity = queries @ train.T
            votes = _votes(similarity, train_label, classes, k, temperature)
        # Equal similarities round to within 1e-6, and their votes to within 1e-6 / temperature.
        scale = votes.amax(2) * max(1.0, 1 / temperature)
        pairs = zip(votes, scale, strict=True)
        parts.append([choose(of_k, label, scale=magnitude) for of_k, magnitude in pairs])
    choices = [join_choices(of_k) for of_k in zip(*parts, strict=True)]
    examples = data.splits["test"]["image"].examples()
    options = class_options(data.classes, right)
    metrics = [
        Items("accuracy", choice, examples, options, at={"k": n})
        for n, choice in zip(k, choices, strict=True)
    ]
    return Outcome(metrics=metrics, notes=[EQUAL_FEATURES_NOTE] if equal else [])


def _votes(
    similarity: Tensor, label: Tensor, classes: int, k: Sequence[int], temperature: float
) -> Tensor:
    """Return the votes of the k nearest per class, float64 [K, B, C], for K values of `k`.

    `similarity` is [B, N] of test to train images, `label` int64 [N]. The largest vote has weight
    1.
    """
    near = similarity.topk(min(max(k) + MORE, similarity.shape[1]))
    last = near.values[:, max(k) - 1 : max(k)] - TIED
    if (near.values[:, -1:] >= last).any():  # more may be tied, up to all
        near = similarity.topk(int((similarity >= last).sum(1).amax()))
    values = near.values.double()
    vote, voter = ((values - values[:, :1]) / temperature).exp(), label[near.indices]
    votes = vote.new_zeros(len(k), len(similarity), classes)
    for n, of_k in zip(k, votes, strict=True):
        last = values[:, n - 1 : n]
        nearer, level = values > last + TIED, (values - last).abs() <= TIED
        share = (n - nearer.sum(1, keepdim=True)) / level.sum(1, keepdim=True)
        of_k.scatter_add_(1, voter, vote * (nearer + level * share))
    return votes
