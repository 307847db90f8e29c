"""Scores of kinds of captions: favourites, those before, references; gains; and their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vlbench.metrics.captions import CAPTION_METRICS
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.items import Answers, Examples, Measured
from vlbench.metrics.ranking import choose
from vlbench.metrics.statistics import Floats
from vlbench.metrics.text.evaluated import PREFIX
from vlbench.probes.captioning.caption_statistics import FRACTIONS, WORDS, formula_of
from vlbench.probes.captioning.estimates import (
    OverSeeds,
    as_fraction,
    not_negative,
    over_seeds,
    share,
    value_alone,
)
from vlbench.results import RANGES, Score, gain_range


class Preference(NamedTuple):
    """How far the first of two is preferred: credit 1, 1/2 or 0 of each image, [seeds, N].

    `chosen` is 0 for the first, 1 for the second, and -1 where both are tied.
    """

    credit: Floats
    chosen: NDArray[np.int64]

    @property
    def ties(self) -> int:
        """How many choices are tied."""
        return int((self.chosen < 0).sum())

    @property
    def counts(self) -> dict[str, int]:
        """How many choices are tied, of how many."""
        return {"ties": self.ties, "choices": self.chosen.size}


def preference(first: Floats, second: Floats) -> Preference:
    """Return the preference between scores, each [seeds, N] or [1, N] for what no seed changes.

    Scores within 1e-6 of the larger magnitude are tied. Raises ValueError for a score that is not
    finite.
    """
    pairs = np.stack(np.broadcast_arrays(first, second), -1)
    flat = torch.from_numpy(pairs.reshape(-1, 2))
    choice = choose(flat, torch.zeros(len(flat), dtype=torch.int64))
    shape = pairs.shape[:-1]
    return Preference(choice.credit.numpy().reshape(shape), choice.chosen.numpy().reshape(shape))


# Captions: of the captioner after and before it is rewarded, and the first reference.
FAVOURITES, BEFORE, REFERENCE = "favourites", "ce", "reference"
KINDS = (FAVOURITES, BEFORE, REFERENCE)

MATCH = "match_score"

# Statistics of each metric [seeds, N, S] by the kind of captions; one seed for what none changes.
ByKind = Mapping[str, Mapping[str, Floats]]

# The ranges of other scores are their models' own.
NEVER_NEGATIVE = frozenset({*WORDS, *CAPTION_METRICS, "perplexity"})

At = Mapping[str, str]

# CIDEr is ten times a mean of cosines.
CIDER = (0.0, 10.0)


def caption_scores(
    kinds: ByKind, units: Mapping[str, str], examples: Examples, at: At | None = None
) -> list[Measured]:
    """Return the score of each metric for each kind of captions, and the gains of favourites.

    `units` are those of metrics that are no fractions. A score without a value, such as the
    precision of nouns where no caption has one, is left out. Means over all images have examples.
    """
    found: list[Measured] = []
    for kind, metrics in kinds.items():
        for name, statistics in metrics.items():
            value = _measured(name, statistics)
            n = _images(name, statistics)
            if value and name in FRACTIONS:
                value = as_fraction(value, n)
            elif value and name in NEVER_NEGATIVE:
                value = not_negative(value)
            scores = _score(name, {**(at or {}), "captions": kind}, value, n, units)
            found += [_with_examples(score, statistics, examples) for score in scores]
    return [*found, *map(Measured, gains(kinds, units, at))]


def _with_examples(score: Score, statistics: Floats, examples: Examples) -> Measured:
    """Return a score with its examples where it is a mean over all images."""
    mean = _is_mean(score.metric) and len(examples.ids) == statistics.shape[1]
    if mean and statistics[..., 1].all():
        return Measured(score, examples, untried(statistics[..., 0]))
    return Measured(score)


def gains(kinds: ByKind, units: Mapping[str, str], at: At | None = None) -> list[Score]:
    """Return what favourites score more than captions of the same images before."""
    found = []
    for name, statistics in kinds.get(FAVOURITES, {}).items():
        less = kinds[BEFORE][name][0]
        value = _measured(name, statistics, less)
        found += _score(f"{name}_gain", dict(at or {}), value, len(less), units, chance=0.0)
    return found


def measured_share(
    metric: str, at: At, credit: Floats, examples: Examples, **more: Any
) -> Measured:
    """Return the mean of [seeds, N] credits; where one seed is all there is, it has no trials."""
    value = share(credit)
    score = Score(metric=metric, at=dict(at), n=credit.shape[1], **more, **value.score())
    return Measured(score, examples, untried(credit))


def measured_preference(
    metric: str, at: At, found: Preference, examples: Examples, names: Sequence[str]
) -> Measured:
    """Return how often the first of two kinds of captions is preferred; chance is 1/2."""
    right = np.zeros(len(examples.ids), np.int64)
    measured = measured_share(metric, at, found.credit, examples, chance=0.5)
    return measured._replace(answers=Answers(list(names), untried(found.chosen), right))


def untried(values: Any) -> Any:
    """Return [N] of a single seed, else [seeds, N]."""
    return values[0] if len(values) == 1 else values


def _is_mean(name: str) -> bool:
    """Return whether a score is a mean over images that count."""
    return name not in CORPORA and not name.startswith(PREFIX)


def _measured(name: str, statistics: Floats, less: Floats | None = None) -> OverSeeds | None:
    if name.startswith(PREFIX):
        return value_alone(statistics, less=less)
    return over_seeds(statistics, formula_of(name), less=less)


def _images(name: str, statistics: Floats) -> int:
    """Return the number of images that count, in the seed where fewest do."""
    return int(statistics[..., 1].sum(1).min()) if _is_mean(name) else statistics.shape[1]


def _score(
    name: str,
    at: At,
    found: OverSeeds | None,
    n: int,
    units: Mapping[str, str],
    *,
    chance: float | None = None,
) -> list[Score]:
    if found is None:
        return []
    metric = name.removesuffix("_gain")
    plain = "score" if metric.startswith(PREFIX) else "words" if metric in WORDS else "fraction"
    unit = units.get(metric, plain)
    limits = CIDER if metric == "cider" else RANGES.get(unit, (None, None))
    return [
        Score(
            metric=name,
            at=dict(at),
            n=n,
            chance=chance,
            unit=unit,
            higher_is_better=metric != "perplexity",
            range=gain_range(limits) if metric != name else CIDER if metric == "cider" else None,
            **found.score(),
        )
    ]
