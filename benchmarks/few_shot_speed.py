"""Measure few_shot against its matrix products alone, side by side, as a ratio of times.

10,000 test and 10,000 train features of width 2,048, 100 classes, 30 draws: 1, 5 and 10 shots of
10 trials. The target is a ratio of at most 1.5. The features are in memory: no model runs.
"""

from dataclasses import replace
from types import SimpleNamespace

import torch
from measuring import Against, compare
from torch import Tensor

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.metrics.scores import scored
from vlbench.probes.generalization.few_shot import few_shot

IMAGES, WIDTH, CLASSES, SHOTS, TRIALS = 10_000, 2_048, 100, [1, 5, 10], 10
ROUNDS = 5


class InMemory:
    """An engine that has the features of every stored row already."""

    def __init__(self, features: Tensor) -> None:
        self._features = features

    def features(self, encode: object, column: Column) -> Tensor:
        """Return the features of a column's rows."""
        del encode
        whole = len(column) == len(self._features)
        return self._features.clone() if whole else self._features[torch.tensor(column.rows)]


def main() -> None:
    """Compare them."""
    features = torch.rand(IMAGES, WIDTH, generator=torch.Generator().manual_seed(0))
    label = value_column([i % CLASSES for i in range(IMAGES)])
    # As of images: without digests of their own, rows would be digested one by one.
    images = replace(label, digests=[str(i) for i in range(IMAGES)])
    split = Split({"image": images, "label": label})
    data = Data(splits={"train": split, "test": split}, classes=[str(i) for i in range(CLASSES)])
    engine, model = InMemory(features), SimpleNamespace(encode_images=None)
    means = features[:CLASSES].T.contiguous()

    def products() -> None:
        for _ in range(len(SHOTS) * TRIALS):
            features @ means

    def probe() -> None:
        scored(few_shot(model, data, engine, shots=SHOTS, trials=TRIALS))

    products()
    compare(Against("few_shot", "its matrix products", 1.5), probe, products, ROUNDS)


if __name__ == "__main__":
    main()
