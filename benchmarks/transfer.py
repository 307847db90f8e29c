"""Measure one training of a linear probe against scikit-learn's LogisticRegression, in one run.

50,000 train features of width 512, 10 classes, of the labels and of shuffled ones, which is the
floor of `train_accuracy`. Prints ratios of CPU times and both accuracies on 10,000 test features.
The target of L-BFGS is a ratio of at most 1.5; Adam is the paper's protocol.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import sklearn
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.probes.generalization.linear import (
    PAPER_TRAINING,
    LinearTraining,
    classify,
    train_linear_probe_once,
)

TEST, WIDTH, CLASSES, ROUNDS = 10_000, 512, 10, 3


def features_of(count: int) -> tuple[Tensor, Tensor]:
    """Return features of overlapping classes, none below 0, and labels."""
    rng = torch.Generator().manual_seed(0)
    centres = 0.12 * torch.randn(CLASSES, WIDTH, generator=rng)
    label = torch.randint(CLASSES, (count,), generator=rng)
    return (centres[label] + torch.randn(count, WIDTH, generator=rng)).relu(), label


def seconds(job: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of one call, and what it returns."""
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


def main(count: int) -> None:
    """Print a line for each optimizer and kind of labels."""
    x, label = features_of(count + TEST)
    train, test = x[:count], x[count:]
    right = label[count:]
    shuffled = label[:count][torch.randperm(count, generator=torch.Generator().manual_seed(1))]
    engine = Engine(ComputeSettings(torch.device("cpu")))
    decay = PAPER_TRAINING.weight_decay
    for what, own in (("labels", label[:count]), ("shuffled", shuffled)):

        def peer(own: Tensor = own) -> LogisticRegression:
            return LogisticRegression(C=1 / (count * decay), max_iter=1000).fit(
                train.numpy(), own.numpy()
            )

        for training in (LinearTraining(optimizer="lbfgs", weight_decay=decay), PAPER_TRAINING):

            def ours(own: Tensor = own, training: LinearTraining = training) -> dict[str, Tensor]:
                return train_linear_probe_once(engine, train, own, (CLASSES, WIDTH), training)

            rounds = [(seconds(ours), seconds(peer)) for _ in range(ROUNDS)]
            (mine, probe), (theirs, other) = (
                min(side, key=lambda one: one[0]) for side in zip(*rounds, strict=True)
            )
            accuracy = float(classify(probe, test, right).credit.mean())
            print(
                f"{what}, {training.optimizer}: {mine:.2f} s, accuracy {accuracy:.4f}; "
                f"scikit-learn {sklearn.__version__} {theirs:.2f} s, "
                f"{other.score(test.numpy(), right.numpy()):.4f}; ratio {mine / theirs:.2f}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 50_000)
