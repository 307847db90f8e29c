"""From items to scores: value, interval, chance, floors, draws, counts, and the table of items.

Every metric that is a mean over items gets its score here, once. What is no mean of items, such as
correlations of matrices and corpus scores, comes finished from its probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlbench.metrics.intervals import (
    Estimate,
    clustered_mean,
    mean_of_seeds,
    mean_of_trials,
    wilson,
)
from vlbench.metrics.items import Answers, Items, Measured, join_items, outcome_of
from vlbench.results import Outcome, Score


def scored(outcome: Outcome) -> Outcome:
    """Return an outcome with the scores and the items of its metrics, which precede the others.

    The counts are `n`, the number of examples of the first metric, `ties`, its tied choices under
    all conditions, and `choices`, their number, unless it is n; counts of the probe override them.
    """
    if not outcome.metrics:
        return outcome
    found = outcome_of([measure_items(one) for one in outcome.metrics])
    return replace(
        outcome,
        metrics=(),
        scores=[*found.scores, *outcome.scores],
        counts={**_counts(outcome.metrics), **outcome.counts},
        items=join_items([one.items for one in (found, outcome) if one.items is not None]),
    )


def score_of(items: Items) -> Score:
    """Return the mean credit of items, with chance, floors, and the interval over what is random.

    `draws` are the means of trials.
    """
    credit = items.choice.credit.numpy()
    floors = dict(items.options.majority)
    for name, floor in items.floors.items():
        floors[name] = floor if isinstance(floor, int | float) else float(floor.credit.mean())
    return Score(
        metric=items.metric,
        at=items.at,
        n=credit.shape[-1],
        chance=_chance(items),
        floors=floors,
        draws=credit.mean(1).tolist() if credit.ndim > 1 else [],
        **_estimate(items, credit)._asdict(),
    )


def _estimate(items: Items, credit: NDArray[Any]) -> Estimate:
    """Return the mean of credit [N] or [T, N] with the interval over what is random."""
    if items.random == "items":
        clusters = items.examples.clusters
        if clusters:
            return clustered_mean(credit, clusters)
        return wilson(float(credit.sum()), len(credit))
    by_trial = np.atleast_2d(credit)
    return mean_of_trials(by_trial) if items.random == "trials" else mean_of_seeds(by_trial)


def measure_items(items: Items) -> Measured:
    """Return a metric's score with its items, for an outcome with scores of other kinds."""
    options, choice = items.options, items.choice
    said = Answers(options.names, choice.chosen.numpy(), options.right) if options.names else None
    return Measured(score_of(items), items.examples, choice.credit.numpy(), said)


def class_scores(items: Items) -> list[Score]:
    """Return the accuracy over the items of each class that has one, without their items.

    Example:
        >>> from vlbench.metrics.items import Examples, class_options
        >>> from vlbench.metrics.ranking import Choice
        >>> import torch
        >>> credit = torch.tensor([1.0, 0.0, 1.0])
        >>> choice = Choice(credit, credit > 1, torch.tensor([0, 1, 1]))
        >>> options = class_options(["cat", "dog"], [0, 0, 1])
        >>> items = Items("accuracy", choice, Examples(["a", "b", "c"], ["1", "2", "3"]), options)
        >>> [(score.at["class"], score.value) for score in class_scores(items)]
        [('cat', 0.5), ('dog', 1.0)]
    """
    credit, right = items.choice.credit.numpy(), np.asarray(items.options.right)
    own = {name: credit[right == number] for number, name in enumerate(items.options.names)}
    return [
        Score(
            metric="class_accuracy",
            at={"class": name},
            n=len(one),
            chance=_chance(items),
            **wilson(float(one.sum()), len(one))._asdict(),
        )
        for name, one in own.items()
        if len(one)
    ]


def _chance(items: Items) -> float | None:
    chance = items.options.chance
    return None if chance is None else float(np.asarray(chance, np.float64).mean())


def _counts(metrics: Any) -> Mapping[str, int]:
    first = [one for one in metrics if one.metric == metrics[0].metric]
    n = metrics[0].choice.credit.shape[-1]
    choices = sum(one.choice.tied.numel() for one in first)
    counts = {"n": n, "ties": sum(int(one.choice.tied.sum()) for one in first)}
    return counts | ({"choices": choices} if choices != n or metrics[0].at else {})
