"""Readers of classes: linear probes and small networks with one hidden layer, on any features.

A linear reader is the optimum that `transfer` finds by L-BFGS. A nonlinear reader is scikit-learn's
MLPClassifier: 64 units, ReLU, 50 iterations of L-BFGS from weights drawn with seed 0. Each is tried
with two weight decays. `choose_reader` takes the reader with the highest accuracy on held-out train
rows; of equally good readers the first.

Departure from `transfer`: each feature is first standardised over the train rows, because
similarities differ by hundredths and log-likelihoods by tens, and weight decay must penalise all
features equally.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vlbench.data.records import Column, Data, Split, draw_rows, require_classes
from vlbench.engine import Engine
from vlbench.metrics.ranking import TIED, Choice, all_equal, choose
from vlbench.probes.by_layer import hold_out, run_trials
from vlbench.probes.generalization.linear import (
    LinearTraining,
    classify,
    train_and_test_labels,
    train_linear_probe_once,
    zero_probe,
)
from vlbench.system.digests import digest
from vlbench.system.threads import threads_for

SPLITS = ("train", "test")

# The second weight decay that is tried, in multiples of the first.
STRONGER = 100

# Units and iterations of a nonlinear reader.
UNITS, ITERATIONS = 64, 50

# Readers are chosen by training on at most this many rows.
MOST = 5000

# The column of the place of each train row.
PLACE = "place"

# Features [N, D] of the train and of the test rows.
Features = Mapping[str, Tensor]


class Reader(NamedTuple):
    """A kind of classifier, and its weight decay."""

    kind: Literal["linear", "nonlinear"]
    weight_decay: float


class ReaderChoice(NamedTuple):
    """The choices of a reader for test rows, and the number of features per row."""

    choice: Choice
    width: int
    converged: bool


class HeldOutRows(NamedTuple):
    """Data whose test rows are held-out train rows, and their places in the train split."""

    data: Data
    places: Mapping[str, list[int]]

    def select(self, features: Features) -> Features:
        """Return the features of these rows, of features of all train rows."""
        return {split: features["train"][self.places[split]] for split in SPLITS}


class Chosen(NamedTuple):
    """The reader chosen for some features, and its credit [N] on the held-out rows."""

    reader: Reader
    credit: Tensor


def readers(weight_decay: float) -> list[Reader]:
    """Return the readers that are tried: linear and nonlinear, with two weight decays each."""
    kinds: tuple[Literal["linear", "nonlinear"], ...] = ("linear", "nonlinear")
    return [Reader(*pair) for pair in product(kinds, (weight_decay, STRONGER * weight_decay))]


def hold_out_rows(data: Data, seed: int) -> HeldOutRows:
    """Return half of the train rows as test rows; a quarter or an eighth if classes are too small.

    Readers are trained on the other rows, at most MOST. Raises TooFewRows for a class without rows
    to train on.
    """

    def split(trial: Data, _: object) -> HeldOutRows:
        require_classes(trial)
        rest = trial.splits["train"]
        some = rest.select(draw_rows(rest, min(len(rest), MOST), seed))
        sampled = replace(trial, splits={**trial.splits, "train": some})
        train_and_test_labels(sampled)
        return HeldOutRows(sampled, {name: [*sampled.splits[name][PLACE].rows] for name in SPLITS})

    train = data.splits["train"]
    places = [*range(len(train))]
    placed = Split({**train.columns, PLACE: Column(digest(places), "value", places, places)})
    whole = replace(data, splits={**data.splits, "train": placed})
    held_out = run_trials(split, hold_out(whole, {"seed": seed}))
    assert held_out, "the data have a train split"
    return held_out


def choose_reader(
    features: Features, held_out: HeldOutRows, tried: Sequence[Reader], engine: Engine
) -> Chosen:
    """Return the reader that is most accurate on held-out rows."""
    selected = held_out.select(features)
    credit = {one: read(selected, held_out.data, one, engine).choice.credit for one in tried}
    best = max(tried, key=lambda reader: float(credit[reader].mean()))
    return Chosen(best, credit[best])


def read(features: Features, data: Data, reader: Reader, engine: Engine) -> ReaderChoice:
    """Return the reading of the test rows by a reader that is trained on the train rows.

    All classes are tied if all test rows have the same features, as in `transfer`.
    """
    train_label, test_label = train_and_test_labels(data)
    size = (len(data.classes), features["train"].shape[1])
    train, test = standardise(features["train"], features["test"])
    if all_equal(features["test"]):
        return ReaderChoice(classify(zero_probe(*size), test, test_label), size[1], converged=True)
    if reader.kind == "nonlinear":
        scores = _network_scores(train, train_label, test, reader, engine)
        return ReaderChoice(choose(scores, test_label), size[1], converged=True)
    training = LinearTraining(optimizer="lbfgs", weight_decay=reader.weight_decay)
    probe = train_linear_probe_once(engine, train, train_label, size, training)
    converged = bool(probe.get("converged", True))
    return ReaderChoice(classify(probe, test, test_label), size[1], converged)


def _network_scores(
    train: Tensor, label: Tensor, test: Tensor, reader: Reader, engine: Engine
) -> Tensor:
    """Return the logits [N, C] of the test rows' classes by a nonlinear reader.

    The main process trains it, and the others get the same numbers.
    """

    def build() -> Tensor:
        from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - slow to import
        from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

        # scikit-learn divides the weight decay by the number of rows.
        alpha = reader.weight_decay * len(label)
        network = MLPClassifier(
            (UNITS,), solver="lbfgs", alpha=alpha, max_iter=ITERATIONS, random_state=0
        )
        with warnings.catch_warnings(), threads_for(*train.shape, UNITS):
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(train.numpy(), label.numpy())
            weights, biases = (
                [torch.from_numpy(column).double() for column in part]
                for part in (network.coefs_, network.intercepts_)
            )
            hidden = (test.double() @ weights[0] + biases[0]).relu()
            logits = (hidden @ weights[1] + biases[1]).float()
        # Of two classes, scikit-learn has the logit of the second.
        return logits if logits.shape[1] > 1 else torch.cat([torch.zeros_like(logits), logits], 1)

    key = {"what": "nonlinear reader", "label": label, "train": digest(train), **reader._asdict()}
    scores: Tensor = engine.once(key | {"test": digest(test)}, build)
    return scores


def join_features(first: Features, second: Features) -> Features:
    """Return the columns of both features, of the train and of the test rows."""
    return {split: torch.cat([first[split].float(), second[split]], 1) for split in SPLITS}


def standardise(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Return features float32 [N, D] of mean 0 and variance 1 over the train rows.

    A feature that is constant over the train rows, within 1e-6 of its value, is 0 in both.

    Example:
        >>> train, test = torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([[1.0, 6.0]])
        >>> [part.tolist() for part in standardise(train, test)]
        [[[-1.0, 0.0], [1.0, 0.0]], [[-1.0, 0.0]]]
    """
    spread, mean = torch.std_mean(train.double(), 0, correction=0)
    varies = spread > TIED * train.double().abs().amax(0)
    scale = torch.where(varies, 1 / spread, 0.0)
    whole, other = (((part.double() - mean) * scale).float() for part in (train, test))
    return whole, other
