"""Parts of the classes of a data set as separate problems, such as seen and held-out classes.

A mean over both trained and new classes hides the transfer to new classes. In each part, images are
classified among only the part's classes, from only the part's images; chance and floors are
computed for the part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from vlbench.data.records import Data, Split, labels, value_column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows, unknown
from vlbench.metrics.intervals import mean_of_seeds, wilson
from vlbench.metrics.items import Answers, Measured, join_items, trials, under
from vlbench.metrics.ranking import Choice
from vlbench.metrics.scores import scored
from vlbench.probes.by_layer import with_option
from vlbench.results import At, Outcome, Score

# The number of guesses that `accuracy_top5` allows.
GUESSES = 5

Probe = TypeVar("Probe", bound=Callable[..., Outcome])


def parted(probe: Probe) -> Probe:
    """Add the parameter `categories` to a probe: parts of the classes, scored separately."""

    @wraps(probe)
    def run(model: Any, data: Data, engine: Engine, **options: Any) -> Outcome:
        parts = options.pop("categories", None)
        if parts is None:
            return probe(model, data, engine, **options)
        return in_parts(data, parts, lambda part: probe(model, part, engine, **options))

    return with_option(run, probe, "categories", dict[str, list[str]] | None)


def in_parts(
    data: Data, parts: Mapping[str, Sequence[str]], probe: Callable[[Data], Outcome]
) -> Outcome:
    """Return the outcome of a probe on each part; `parts` has the classes of each by name.

    The scores of a part have its name under `categories`. The count `n` is left out; other counts
    are sums. Raises ValueError for an unknown class, for a class named twice, and for a part of
    fewer than two classes; TooFewRows for a split without images of a part.
    """
    _require_once([name for names in parts.values() for name in names])
    # All parts are checked before the model runs on the first.
    separate = {part: of_classes(data, names) for part, names in parts.items()}
    outcomes = {part: scored(probe(rows)) for part, rows in separate.items()}
    counts: Counter[str] = Counter()
    for outcome in outcomes.values():
        counts.update({"choices": outcome.counts.get("n", 0)} | dict(outcome.counts))
    return Outcome(
        scores=[
            replace(score, at={"categories": part} | dict(score.at))
            for part, outcome in outcomes.items()
            for score in outcome.scores
        ],
        counts={name: count for name, count in counts.items() if name != "n"},
        notes=[f"{part}: {note}" for part, outcome in outcomes.items() for note in outcome.notes],
        items=join_items(
            [
                under(outcome.items, {"categories": part})
                for part, outcome in outcomes.items()
                if outcome.items is not None
            ]
        ),
    )


def of_classes(data: Data, names: Sequence[str]) -> Data:
    """Return the rows of some classes, in the order of the data; labels are places in `names`.

    Features are shared with the whole data. Raises as `in_parts`.
    """
    _require_once(names)
    if len(names) < 2:
        raise ValueError(f"categories {list(names)}: name 2 or more")
    known = {name: i for i, name in enumerate(data.classes)}
    absent = [name for name in names if name not in known]
    if absent:
        raise ValueError(f"categories: {unknown('class', absent[0], known)}")
    places = {known[name]: place for place, name in enumerate(names)}
    splits = {name: _of_labels(split, places) for name, split in data.splits.items()}
    for split, rows in splits.items():
        if not len(rows):
            raise TooFewRows(f"the {split} split has no image of {', '.join(names)}")
    return replace(data, splits=splits, classes=list(names), expected={}, class_order="")


def _of_labels(split: Split, places: Mapping[int, int]) -> Split:
    """Return the rows whose labels are in `places`, which has their new labels."""
    label = labels(split)
    rows = np.flatnonzero(np.isin(label, list(places))).tolist()
    renamed = value_column([places[old] for old in label[rows].tolist()])
    return Split({**split.select(rows).columns, "label": renamed})


def _require_once(names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"categories: class '{twice[0]}' is named twice; name it once")


def measured_accuracy(
    metric: str,
    choices: Sequence[Choice],
    data: Data,
    split: str,
    *,
    at: At | None = None,
    floors: Mapping[str, float] | None = None,
) -> Measured:
    """Return the mean accuracy of several trainings' choices for the images of a split.

    `floors` are added.
    """
    rows = data.splits[split]
    label = torch.from_numpy(labels(rows))
    credit, chosen = (torch.stack([one[i] for one in choices]) for i in (0, 2))
    score = Score(
        metric=metric,
        at=at or {},
        n=len(label),
        chance=1 / len(data.classes),
        floors={"majority_class": int(label.bincount().amax()) / len(label), **(floors or {})},
        draws=credit.mean(1).tolist() if len(credit) > 1 else [],
        **mean_of_seeds(credit.numpy())._asdict(),
    )
    return measured_images(score, trials(credit), trials(chosen), rows, data.classes)


def measured_images(
    score: Score, credit: ArrayLike, chosen: ArrayLike, rows: Split, classes: Sequence[str]
) -> Measured:
    """Return a score with the credit, and the chosen class, of each image of rows."""
    answers = Answers(classes, chosen, labels(rows))
    return Measured(score, rows["image"].examples(), credit, answers)


def measured_choice(
    metric: str,
    choice: Choice,
    rows: Split,
    classes: Sequence[str],
    *,
    at: At | None = None,
    floors: Mapping[str, float] | None = None,
) -> Measured:
    """Return the accuracy of a choice of classes for the images of rows; `floors` are added."""
    score = guess_score(metric, choice.credit, torch.from_numpy(labels(rows)), len(classes))
    score = replace(score, at=at or {}, floors={**score.floors, **(floors or {})})
    return measured_images(score, choice.credit, choice.chosen, rows, classes)


def measured_guesses(
    choices: Mapping[str, Choice], top5: Tensor, rows: Split, classes: Sequence[str]
) -> list[Measured]:
    """Return the accuracy of choices by metric, and of five guesses if there are more classes.

    `top5` [N] is the credit of five guesses.
    """
    measured = [measured_choice(name, one, rows, classes) for name, one in choices.items()]
    if len(classes) > GUESSES:
        right = torch.from_numpy(labels(rows))
        score = guess_score("accuracy_top5", top5, right, len(classes), GUESSES)
        measured.append(Measured(score, rows["image"].examples(), top5))
    return measured


def guess_score(
    metric: str, credit: Tensor, right: Tensor, classes: int, guesses: int = 1
) -> Score:
    """Return the mean credit [N] of `guesses` guesses each; `right` int64 [N] are right classes.

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
