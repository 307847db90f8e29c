"""Measure one training of a linear probe against scikit-learn's LogisticRegression, in one run.

50,000 train features of width 512, 10 classes, of the labels and of shuffled ones, which is the
floor of `train_accuracy`. Prints ratios of CPU times and both accuracies on 10,000 test features.
The target of L-BFGS is a ratio of at most 1.5; Adam is the paper's protocol.
"""

import sys

import sklearn
import torch
from measuring import Against, compare
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
PEER = f"LogisticRegression {sklearn.__version__}"


def features_of(count: int) -> tuple[Tensor, Tensor]:
    """Return features of overlapping classes, none below 0, and labels."""
    rng = torch.Generator().manual_seed(0)
    centres = 0.12 * torch.randn(CLASSES, WIDTH, generator=rng)
    label = torch.randint(CLASSES, (count,), generator=rng)
    return (centres[label] + torch.randn(count, WIDTH, generator=rng)).relu(), label


def main(count: int) -> None:
    """Compare each optimizer on each kind of labels."""
    x, label = features_of(count + TEST)
    train, test = x[:count], x[count:]
    right = label[count:]
    shuffled = label[:count][torch.randperm(count, generator=torch.Generator().manual_seed(1))]
    engine = Engine(ComputeSettings(torch.device("cpu")))
    decay = PAPER_TRAINING.weight_decay
    for kind, own in (("labels", label[:count]), ("shuffled", shuffled)):

        def peer(own: Tensor = own) -> LogisticRegression:
            return LogisticRegression(C=1 / (count * decay), max_iter=1000).fit(
                train.numpy(), own.numpy()
            )

        best = LinearTraining(optimizer="lbfgs", weight_decay=decay)
        for training, name, target in ((best, "L-BFGS", 1.5), (PAPER_TRAINING, "Adam", None)):

            def ours(own: Tensor = own, training: LinearTraining = training) -> dict[str, Tensor]:
                return train_linear_probe_once(engine, train, own, (CLASSES, WIDTH), training)

            accuracy = float(classify(ours(), test, right).credit.mean())
            print(
                f"accuracy {accuracy:.4f}, {PEER} {peer().score(test.numpy(), right.numpy()):.4f}"
            )
            what = f"linear probe by {name}, {count:,} x {WIDTH}, {kind}"
            compare(Against(what, PEER, target), ours, peer, ROUNDS)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 50_000)
