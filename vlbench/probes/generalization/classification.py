"""Classification with a model's own classifier: top-1, top-5 and per-class accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vlbench.capabilities import Classifier
from vlbench.data.records import TestRows, labels, require_classes
from vlbench.engine import Engine
from vlbench.metrics.intervals import wilson
from vlbench.metrics.items import Measured, outcome_of
from vlbench.metrics.ranking import choose, credit_among
from vlbench.probes.generalization.categories import GUESSES, measured_guesses, of_classes
from vlbench.probes.generalization.class_pairs import pair_classes
from vlbench.results import Outcome, Score

# With more classes than this, the accuracy per class is not scored, to keep boards small.
MOST_CLASSES = 100


def classification(
    model: Classifier,
    data: TestRows,
    engine: Engine,
    *,
    categories: list[str] | None = None,
) -> Outcome:
    """Return how often the class with the highest logit is right.

    `accuracy_top5`, if there are more than five classes, is how often the right class is among the
    five highest; `class_accuracy` is the accuracy over images of one class. Tied classes share the
    credit. Outputs and classes are paired as in `pair_classes`. Raises CannotDo if the model's
    classes are not the data's classes, and ValueError for logits that are not [N, C].

    Args:
        categories: classes whose images are classified, two or more; None takes all.
    """
    data = data if categories is None else of_classes(data, categories)
    require_classes(data)
    test, names = data.splits["test"], data.classes
    logits = engine.features(model.logits, test["image"])
    pairs = pair_classes(model, data, logits)
    logits = pairs.of_classes(logits)
    right = torch.from_numpy(labels(test))
    first = choose(logits, right, log_odds=True)
    top5 = credit_among(logits, right, GUESSES, log_odds=True)
    measured = measured_guesses({"accuracy": first}, top5, test, names)
    if len(names) <= MOST_CLASSES:
        measured += map(Measured, _each_class(first.credit, right, names))
    counts = {"n": len(right), "ties": int(first.tied.sum())}
    return outcome_of(measured, counts, [pairs.note] if pairs.note else [])


def _each_class(credit: Tensor, right: Tensor, names: Sequence[str]) -> list[Score]:
    """Return the accuracy of each class that has an image."""
    own = [credit[right == number] for number in range(len(names))]
    return [
        Score(
            metric="class_accuracy",
            at={"class": name},
            n=len(one),
            chance=1 / len(names),
            **wilson(float(one.sum()), len(one))._asdict(),
        )
        for name, one in zip(names, own, strict=True)
        if len(one)
    ]
