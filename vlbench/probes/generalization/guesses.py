"""The score of guessing one class among several, with its chance and its floor."""

from __future__ import annotations

from torch import Tensor

from vlbench.metrics.statistics import wilson
from vlbench.results import Score


def guess_score(
    metric: str, credit: Tensor, right: Tensor, classes: int, guesses: int = 1
) -> Score:
    """Return the mean credit [N] of `guesses` guesses each, where `right` int64 [N] is right.

    The floor is the score of always guessing the most common classes.
    """
    n, common = len(right), right.bincount(minlength=classes).topk(guesses).values
    floor = "majority_class" if guesses == 1 else "majority_classes"
    return Score(
        metric=metric,
        n=n,
        chance=guesses / classes,
        floors={floor: int(common.sum()) / n},
        **wilson(float(credit.sum()), n)._asdict(),
    )
