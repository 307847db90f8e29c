"""From items to scores: value, interval, chance, floors, draws, counts, and the table of items.

Every metric that is a mean over items gets its score here, once. What is no mean of items, such as
correlations of matrices and corpus scores, comes finished from its probe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.metrics.intervals import (
    Estimate,
    estimate_of_sums,
    fraction_over_seeds,
    mean_of_seeds,
    mean_of_trials,
    ratio,
    wilson,
)
from vlbench.metrics.items import Answers, Items, Measured, Options, join_items, outcome_of
from vlbench.metrics.ranking import Choice
from vlbench.results import Outcome, Score


def scored(outcome: Outcome) -> Outcome:
    """Return an outcome with the scores and the items of its metrics, which precede the others.

    If examples have categories, each category has a score, and the first metric a mean over them.
    The counts are `n`, the number of examples of the first metric, `ties`, its tied choices under
    all conditions, and `choices`, their number, unless it is n; counts of the probe override them.
    """
    if not outcome.metrics:
        return outcome
    parts = [part for metric in outcome.metrics for part in _with_categories(metric)]
    measured = outcome_of([measure_items(one) for one in [*parts, *_macro_of(outcome.metrics[0])]])
    return replace(
        outcome,
        metrics=(),
        scores=[*measured.scores, *outcome.scores],
        counts={**_counts(outcome.metrics), **outcome.counts},
        items=join_items([one.items for one in (measured, outcome) if one.items is not None]),
    )


def _with_categories(items: Items) -> list[Items]:
    names = sorted({*items.examples.categories})
    return [items, *by_category(items, names)]


def _macro_of(items: Items) -> list[Items]:
    names = sorted({*items.examples.categories})
    return [macro(items, names)] if names else []


def score_of(items: Items) -> Score:
    """Return the mean credit of items, with chance, floors, and the interval over what is random.

    `draws` are the means of trials.

    Example:
        >>> from vlbench.metrics.items import Examples, class_options
        >>> choice = Choice(torch.tensor([1.0, 0.0]), torch.zeros(2) > 0, torch.tensor([0, 0]))
        >>> examples, options = Examples(["a", "b"], ["1", "2"]), class_options(["x", "y"], [0, 1])
        >>> score = score_of(Items("accuracy", choice, examples, options))
        >>> score.value, score.chance, score.floors
        (0.5, 0.5, {'majority_class': 0.5})
    """
    credit = items.choice.credit.numpy()
    floors = dict(items.options.majority)
    for name, floor in items.floors.items():
        floors[name] = floor if isinstance(floor, int | float) else float(floor.credit.mean())
    return Score(
        metric=items.metric,
        at=items.at,
        n=items.n or credit.shape[-1],
        chance=_chance(items),
        floors=floors,
        draws=credit.mean(1).tolist() if credit.ndim > 1 else [],
        higher_is_better=items.higher_is_better,
        range=items.range,
        no_chance=items.no_chance,
        **_estimate(items, credit)._asdict(),
    )


def _estimate(items: Items, credit: NDArray[Any]) -> Estimate:
    """Return the mean of credit [N] or [T, N] with the interval over what is random.

    Raises ValueError for random trials whose items are in clusters, and for trials that are not
    random.
    """
    clusters, by_trial = items.examples.clusters, np.atleast_2d(credit)
    if items.random == "items" and credit.ndim > 1:
        raise ValueError(f"{items.metric}: choices [T, N] need `random`: trials or seeds")
    if items.random == "trials":
        if clusters:
            raise ValueError(
                f"{items.metric}: no interval is known for trials of items in clusters"
            )
        return mean_of_trials(by_trial)
    if not clusters and items.range is None:
        return mean_of_seeds(by_trial)
    _, places = np.unique(clusters or items.examples.ids, return_inverse=True)
    hits = np.stack([np.bincount(places, row) for row in by_trial])
    counts = np.bincount(places)
    if items.range is None:
        return fraction_over_seeds(hits, np.broadcast_to(counts, hits.shape))
    draws = by_trial.mean(1).tolist()
    return estimate_of_sums(np.stack([hits.mean(0), counts], 1), ratio, by_seed=draws)


def measure_items(items: Items) -> Measured:
    """Return a metric's score with its items, for an outcome with scores of other kinds."""
    options, choice, answers = items.options, items.choice, None
    if options.names:
        answers = Answers(options.names, choice.chosen.numpy(), options.right)
    return Measured(score_of(items), items.examples, choice.credit.numpy(), answers)


def subset(items: Items, places: Sequence[int], **at: str) -> Items:
    """Return some of the items, by their numbers, with further conditions.

    The floor of the majority is left out: which option is right most often in a part is not known.
    """
    index, options = torch.tensor(places, dtype=torch.long), items.options
    choice, chance, right = _choice_at(items.choice, index), options.chance, options.right
    if chance is not None and np.ndim(chance):
        chance = np.asarray(chance)[places]
    names = options.names
    if names and choice.chosen.ndim > 1:
        right = np.asarray(right)[places]
    elif names:
        names, chosen, right = Answers(names, items.choice.chosen.numpy(), right).select(places)
        choice = choice._replace(chosen=torch.as_tensor(np.asarray(chosen)))
    return items._replace(
        choice=choice,
        examples=items.examples.select(places),
        options=Options(names, right, chance),
        floors={
            name: _choice_at(floor, index) if isinstance(floor, Choice) else floor
            for name, floor in items.floors.items()
        },
        at={**items.at, **at},
    )


def _choice_at(choice: Choice, index: Tensor) -> Choice:
    return Choice(*(part[..., index] for part in choice))


def by_category(items: Items, names: Sequence[str]) -> list[Items]:
    """Return the items of each of the named categories, with its name in `at`."""
    of_items = np.array(items.examples.categories)
    return [
        subset(items, np.flatnonzero(of_items == name).tolist(), category=name) for name in names
    ]


def macro(items: Items, names: Sequence[str]) -> Items:
    """Return items whose mean is the mean over categories of the mean credit of their items.

    Credit, floors and chance are multiplied by the items' weights, which are 1 on average.

    Example:
        >>> from vlbench.metrics.items import Examples
        >>> credit = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)  # two of x, one of y
        >>> choice, options = Choice(credit, credit > 1, credit.long()), Options((), (), 0.5)
        >>> examples = Examples([*"abc"], [*"123"], categories=[*"xxy"])
        >>> score = score_of(macro(Items("accuracy", choice, examples, options), ["x", "y"]))
        >>> score.metric, score.value, score.chance  # (1 + 0) / 2
        ('accuracy_macro', 0.5, 0.5)
    """
    of_items = np.array(items.examples.categories)
    weights = np.zeros(len(of_items))
    for name in names:
        weights[of_items == name] = 1 / (of_items == name).sum()
    places = np.flatnonzero(weights)
    kept = subset(items, places.tolist())
    scale = torch.from_numpy(weights[places] * len(places) / len(names))

    def scaled(choice: Choice) -> Choice:
        return choice._replace(credit=choice.credit * scale)

    chance = kept.options.chance
    if chance is not None:
        chance = np.asarray(chance, np.float64) * scale.numpy()
    return kept._replace(
        metric=f"{items.metric}_macro",
        choice=scaled(kept.choice),
        floors={
            n: scaled(one) if isinstance(one, Choice) else one for n, one in kept.floors.items()
        },
        options=kept.options._replace(chance=chance),
    )


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
    by_class = {name: credit[right == number] for number, name in enumerate(items.options.names)}
    return [
        Score(
            metric="class_accuracy",
            at={"class": name},
            n=len(part),
            chance=_chance(items),
            **wilson(float(part.sum()), len(part))._asdict(),
        )
        for name, part in by_class.items()
        if len(part)
    ]


def _chance(items: Items) -> float | None:
    chance = items.options.chance
    return None if chance is None else float(np.asarray(chance, np.float64).mean())


def _counts(metrics: Any) -> Mapping[str, int]:
    first = [metric for metric in metrics if metric.metric == metrics[0].metric]
    n = metrics[0].choice.credit.shape[-1]
    choices = sum(one.choice.tied.numel() for one in first)
    counts = {"n": n, "ties": sum(int(one.choice.tied.sum()) for one in first)}
    return counts | ({"choices": choices} if choices != n or metrics[0].at else {})
