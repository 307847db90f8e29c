"""Description length of the labels under a linear probe, and the probe's selectivity.

The online code of Voita and Titov 2020, arXiv:2003.12298, section 3.2 (`metrics.probe_worth`):
labels of train images are sent block by block, each coded by a probe trained on the blocks before
it. The same probes are tested on test images. Selectivity is defined as in Hewitt and Liang 2019,
arXiv:1909.03368, section 2.

Departures. The probe is logistic regression with an L2 penalty, on features standardised over its
training images. Its probabilities are mixed with uniform probabilities with weights n : 1 for n
images: a class may be absent from few images, and a label with probability 0 has an infinitely long
code. Blocks that would end before one image per class on average are part of the next.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Data, TrainAndTestRows, require_classes, same_images
from vlbench.engine import Engine
from vlbench.engine.training import each_seed
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.intervals import estimate_of_sums, log_ends, ratio
from vlbench.metrics.items import Measured, outcome_of, trials
from vlbench.metrics.probe_worth import (
    PERCENT,
    Probe,
    block_ends,
    control_labels,
    online_code,
    selectivity,
)
from vlbench.metrics.ranking import TIED, Choice, all_equal, choose, require_finite
from vlbench.metrics.scores import measure_items
from vlbench.probes.by_layer import layered
from vlbench.probes.generalization.categories import class_items, parted
from vlbench.probes.generalization.linear import train_and_test_labels
from vlbench.probes.generalization.transfer import EQUAL_FEATURES_NOTE
from vlbench.results import Outcome, Positive, Score
from vlbench.system.threads import threads_for

# Most iterations of L-BFGS.
ITERATIONS = 1000


class OnlineCoding(NamedTuple):
    """How labels are sent: `c` is the inverse of a probe's penalty, `percent` the ends of blocks.

    There are `seeds` seeds, from `seed` on; each draws the order of images, and shuffles labels.
    """

    c: float = 1.0
    percent: Sequence[float] = PERCENT
    seed: int = 0
    seeds: Positive = 3


# Blocks as in arXiv:2003.12298.
PAPER_CODING = OnlineCoding()


class CodingData(NamedTuple):
    """Features [N, D] and labels int64 [N] of the train images, and of the test images.

    `images` are the train rows of each image, including its copies.
    """

    train: Tensor
    label: Tensor
    test: Tensor
    right: Tensor
    classes: int
    c: float
    images: Sequence[Sequence[int]]

    def fit(self, features: Tensor, label: Tensor) -> Probe:
        """Return the probe trained on these features and labels."""
        return train_probe(features, label, self.classes, self.c)

    def answer(self, probe: Probe, right: Tensor) -> Choice:
        """Return a probe's choices for test images; if all images are equal, classes are tied."""
        if all_equal(self.test):
            return choose(torch.zeros(len(right), self.classes), right)
        return choose(probe(self.test), right, log_odds=True)


class CodeLengths(NamedTuple):
    """The bits [N] of each train image's label in one order, and of baselines.

    `shuffled` are the bits of shuffled labels, `frequencies` the bits without features. `choices`
    are the test choices of the probe trained at each block's end, except the last.
    """

    bits: Tensor
    shuffled: float
    frequencies: float
    choices: Sequence[Choice]


@layered()
@parted
def description_length(
    model: ImageEncoder,
    data: TrainAndTestRows,
    engine: Engine,
    *,
    coding: OnlineCoding = PAPER_CODING,
    types: str | None = None,
) -> Outcome:
    """Return the code length of the train labels, and test accuracy by number of train images.

    `compression` is the length of the code of equally likely classes divided by this length,
    averaged over random orders. Lengths have no chance level: a model without information has the
    code of `class_frequencies`. Intervals of lengths are over images, or over their types, and over
    orders; probes are fixed. If all test images have the same features, within 1e-6, accuracies are
    at chance. Raises TooFewRows for a single block, and for a class without train images.

    Args:
        coding: `c`, the inverse of a probe's penalty; ends of blocks in `percent` of the images;
            `seeds` orders of images, from `seed` on.
        types: column with the type of each image, for selectivity and intervals; None: no
            selectivity.
        categories: the classes of each part by its name, scored separately; None: no parts.
        layers: names of layers of the image encoder to score, or `all`; None scores the output.
    """
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - slow to import

    require_classes(data)
    seeds = [plan.seed for plan in each_seed(coding)]
    label, right = train_and_test_labels(data)
    ends = _ends(len(label), coding.percent, len(data.classes))
    train, test = (
        engine.features(model.encode_images, data.splits[split]["image"])
        for split in ("train", "test")
    )
    images = same_images(data.splits["train"])
    problem = CodingData(train, label, test, right, len(data.classes), coding.c, images)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        measured = _measure(problem, data, ends, types, seeds)
    ties = [part for part in measured if part.score.metric == "accuracy"]
    tied = sum(int((np.asarray(tie.answers.chosen) < 0).sum()) for tie in ties if tie.answers)
    counts = {"ties": tied, "choices": sum(np.asarray(tie.credit).size for tie in ties)}
    notes = [EQUAL_FEATURES_NOTE] if all_equal(test) else []
    slow = sum(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    if slow:
        notes.append(f"{counted(slow, 'probe')} had not converged after {ITERATIONS} iterations")
    return outcome_of(measured, counts, notes)


def train_probe(features: Tensor, label: Tensor, classes: int, c: float) -> Probe:
    """Return logistic regression on [N, D] features, with probabilities of all classes.

    Class k has the probability (n p_k + 1 / K) / (n + 1). Dimensions that are constant, within 1e-6
    of their largest |x|, are left out. If all are constant, or if there is only one class, p are
    the class frequencies. Raises ValueError for features that are not finite.
    """
    require_finite(features)
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow to import

    n, x = len(label), features.double()
    low, high = x.aminmax(dim=0)
    varies = high - low > TIED * torch.maximum(low.abs(), high.abs())
    if not varies.any() or len(label.bincount().nonzero()) < 2:
        return class_frequencies(label, classes)
    mean, deviation = x.mean(0)[varies], x.std(0, correction=0)[varies]

    def standardise(points: Tensor) -> Any:
        return ((points.double()[:, varies] - mean) / deviation).numpy()

    with threads_for(n, features.shape[1], classes):
        model = LogisticRegression(C=c, max_iter=ITERATIONS).fit(standardise(x), label.numpy())

    def log_probabilities(points: Tensor) -> Tensor:
        probabilities = np.full((len(points), classes), 1 / classes)
        probabilities[:, model.classes_] += n * model.predict_proba(standardise(points))
        return torch.from_numpy(np.log(probabilities / (n + 1)))

    return log_probabilities


def class_frequencies(label: Tensor, classes: int) -> Probe:
    """Return the probe that predicts class frequencies, mixed in the same way."""
    counts = label.bincount(minlength=classes).double()
    logs = ((counts + 1 / classes) / (len(label) + 1)).log()
    return lambda points: logs.expand(len(points), -1)


def _ends(n: int, percent: Sequence[float], classes: int) -> list[int]:
    ends = block_ends(n, percent, least=classes)
    if len(ends) < 2:
        rows = math.ceil(100 * classes / percent[-2]) if len(percent) > 1 else None
        raise TooFewRows(f"{counted(n, 'train image')} in one block; 2 are needed", rows)
    return ends


def _measure(
    problem: CodingData, data: Data, ends: Sequence[int], types: str | None, seeds: Sequence[int]
) -> list[Measured]:
    test = data.splits["test"]
    sent = [_send(problem, ends, np.random.default_rng(seed)) for seed in seeds]
    # The probe trained on all images does not depend on the order.
    whole = problem.fit(problem.train, problem.label)
    by_end = [*zip(*(code.choices for code in sent), strict=True)]
    by_end.append((problem.answer(whole, problem.right),))
    return [
        *_code_lengths(sent, problem.classes, data, _clusters(problem, data, types)),
        *(
            measure_items(
                class_items("accuracy", of_end, test, data.classes, at={"train_images": end})
            )
            for end, of_end in zip(ends, by_end, strict=True)
        ),
        *([_selectivity(problem, whole, data, types, seeds)] if types is not None else []),
    ]


def _send(problem: CodingData, ends: Sequence[int], rng: np.random.Generator) -> CodeLengths:
    """Return the code lengths of the labels in a random order."""
    n, classes = len(problem.label), problem.classes
    # Copies of an image are sent together: the probe of a later block would know their labels.
    drawn = [problem.images[i] for i in rng.permutation(len(problem.images))]
    order = torch.tensor([*chain(*drawn)])
    x, y = problem.train[order], problem.label[order]
    probes = {end: problem.fit(x[:end], y[:end]) for end in ends[:-1]}
    code = online_code(x, y, classes, lambda _, labels: probes[len(labels)], ends)
    shuffled = online_code(x, y[rng.permutation(n)], classes, problem.fit, ends)
    without = online_code(x, y, classes, lambda _, labels: class_frequencies(labels, classes), ends)
    bits = torch.empty(n, dtype=torch.float64)
    bits[order] = code.examples
    choices = [problem.answer(probe, problem.right) for probe in probes.values()]
    return CodeLengths(bits, shuffled.bits, without.bits, choices)


def _clusters(problem: CodingData, data: Data, types: str | None) -> list[str]:
    """Return the cluster of each train image: its type, or the image that it is a copy of."""
    if types is not None:
        return [str(kind) for kind in data.splits["train"][types]]
    number = {row: str(i) for i, rows in enumerate(problem.images) for row in rows}
    return [number[row] for row in range(len(number))]


def _code_lengths(
    sent: Sequence[CodeLengths], classes: int, data: Data, clusters: Sequence[str]
) -> list[Measured]:
    bits = torch.stack([code.bits for code in sent]).numpy()
    n, uniform, mean = bits.shape[1], math.log2(classes), bits.mean(0)
    by_seed, ones = bits.mean(1), np.ones(len(mean))
    both = np.stack([uniform * ones, mean], 1)
    places = np.unique(clusters, return_inverse=True)[1]

    def by_cluster(statistics: Any) -> Any:
        return np.stack([np.bincount(places, column) for column in statistics.T], 1)

    floors = {
        "shuffled_labels": float(np.mean([code.shuffled for code in sent])) / n,
        "class_frequencies": float(np.mean([code.frequencies for code in sent])) / n,
    }
    compression = Score(
        "compression",
        n=n,
        unit="ratio",
        range=(0.0, None),
        floors={name: uniform / value for name, value in floors.items()},
        draws=_draws(uniform / by_seed),
        **estimate_of_sums(
            by_cluster(both),
            CORPORA["compression"].formula,
            by_seed=uniform / by_seed,
            ends=log_ends,
        )._asdict(),
    )
    length = Score(
        "bits_per_label",
        n=n,
        unit="bits",
        range=(0.0, None),
        higher_is_better=False,
        floors=floors,
        draws=_draws(by_seed),
        **estimate_of_sums(by_cluster(np.stack([mean, ones], 1)), ratio, by_seed=by_seed)._asdict(),
    )
    examples = data.splits["train"]["image"].examples()
    if places.max() + 1 < n:
        examples = examples._replace(clusters=clusters)
    return [
        Measured(compression, examples, uniform / mean, statistics=both),
        Measured(length, examples, trials(bits)),
    ]


def _draws(values: Any) -> list[float]:
    """Return the values of several trials; empty for a single trial."""
    return [float(value) for value in values] if len(values) > 1 else []


def _selectivity(
    problem: CodingData, whole: Probe, data: Data, types: str, seeds: Sequence[int]
) -> Measured:
    """Return selectivity on test images whose type is in training, in clusters by type.

    Each seed draws the labels of a control task.
    """
    n = len(problem.label)
    names = [str(x) for split in ("train", "test") for x in data.splits[split][types]]
    kinds = torch.from_numpy(np.unique(names, return_inverse=True)[1])
    seen = torch.isin(kinds[n:], kinds[:n])
    tested = kinds[n:][seen].numpy()
    if len(np.unique(tested)) < 2:
        common = counted(len(np.unique(tested)), "type")
        raise TooFewRows(f"{common} of '{types}' in both train and test images; 2 are needed")
    task, controls = problem.answer(whole, problem.right).credit[seen], []
    for seed in seeds:
        control = control_labels(kinds, problem.label, np.random.default_rng(seed))
        probe = problem.fit(problem.train, control[:n])
        controls.append(problem.answer(probe, control[n:]).credit[seen])
    gain = (task - torch.stack(controls).mean(0)).numpy()
    by_seed = [selectivity(float(task.mean()), float(other.mean())) for other in controls]
    sums = np.stack([np.bincount(tested, gain), np.bincount(tested).astype(float)], 1)
    score = Score(
        "selectivity",
        n=len(tested),
        chance=0.0,
        range=(-1.0, 1.0),
        draws=_draws(by_seed),
        **estimate_of_sums(sums, ratio, by_seed=by_seed)._asdict(),
    )
    return Measured(score)
