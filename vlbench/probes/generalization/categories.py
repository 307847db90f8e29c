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
from vlbench.metrics.items import Answers, Items, Measured, class_options, join_outcomes
from vlbench.metrics.ranking import Choice, without_answer
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
    sums = {name: count for name, count in counts.items() if name != "n"}
    joined = join_outcomes(outcomes, "categories")
    # Tables name the part first, as tasks do.
    scores = [replace(s, at={"categories": s.at["categories"], **s.at}) for s in joined.scores]
    return replace(joined, scores=scores, counts=sums)


def of_classes(data: Data, names: Sequence[str]) -> Data:
    """Return the rows of some classes, in the order of the data; labels are places in `names`.

    Features are shared with the whole data. Raises as `in_parts`.
    """
    _require_once(names)
    if len(names) < 2:
        raise ValueError(f"categories {list(names)}: name 2 or more")
    numbers = {name: i for i, name in enumerate(data.classes)}
    absent = [name for name in names if name not in numbers]
    if absent:
        raise ValueError(f"categories: {unknown('class', absent[0], numbers)}")
    places = {numbers[name]: place for place, name in enumerate(names)}
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


def class_items(
    metric: str,
    choices: Sequence[Choice],
    rows: Split,
    classes: Sequence[str],
    *,
    at: At | None = None,
    floors: Mapping[str, Choice | float] | None = None,
) -> Items:
    """Return the items of choices of classes for the images of rows, one choice for each training.

    A single choice may be deterministic: its interval is over the images.
    """
    options = class_options(classes, labels(rows))
    examples, by_rule = rows["image"].examples(), floors or {}
    if len(choices) == 1:
        return Items(metric, choices[0], examples, options, by_rule, at or {})
    joined = Choice(*(torch.stack(parts) for parts in zip(*choices, strict=True)))
    return Items(metric, joined, examples, options, by_rule, at or {}, "seeds")


def five_guesses(credit: Tensor, rows: Split, classes: Sequence[str]) -> list[Items]:
    """Return the items of five guesses for each image, of credit [N], if there are more classes."""
    if len(classes) <= GUESSES:
        return []
    options = class_options(classes, labels(rows), GUESSES)
    return [Items("accuracy_top5", without_answer(credit), rows["image"].examples(), options)]


def measured_images(
    score: Score, credit: ArrayLike, chosen: ArrayLike, rows: Split, classes: Sequence[str]
) -> Measured:
    """Return a score with the credit, and the chosen class, of each image of rows."""
    answers = Answers(classes, chosen, labels(rows))
    return Measured(score, rows["image"].examples(), credit, answers)
