"""Scores of kinds of captions with their items: matching scores, statistics, metrics and gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from vlbench.asking.pair_scores import other_images
from vlbench.engine import Engine
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.evaluated import PREFIX
from vlbench.metrics.intervals import Ends, Floats, fraction_ends, log_ends, plain_ends
from vlbench.metrics.items import (
    Answers,
    Examples,
    Items,
    Measured,
    Options,
    outcome_of,
    trials,
)
from vlbench.metrics.language_model import TextScorer
from vlbench.metrics.ranking import without_answer
from vlbench.metrics.scores import measure_items
from vlbench.probes.captioning.caption_sets import Subjects
from vlbench.probes.captioning.caption_statistics import (
    FRACTIONS,
    WORDS,
    JudgedCaptions,
    OverSeeds,
    caption_statistics,
    formula_of,
    metric_statistics,
    over_seeds,
    value_alone,
)
from vlbench.probes.captioning.kinds import BEFORE, FAVOURITES, KINDS, MATCH, REFERENCE
from vlbench.probes.captioning.nouns import Nouns
from vlbench.results import RANGES, At, Outcome, Score, gain_range

# Statistics of each metric [seeds, N, S] by kind of captions; one seed if no seed changes them.
ByKind = Mapping[str, Mapping[str, Floats]]

# CIDEr is 10 times a mean of cosines.
CIDER = (0.0, 10.0)

ENDS: Mapping[str, Ends] = {**dict.fromkeys(FRACTIONS, fraction_ends), "perplexity": log_ends}

# Why scores without a floor have no chance level, by metric; the last is the default.
DESCRIBES = "describes the captions: a higher value is neither better nor worse"
OWN_SCALE = "on the model's own scale; compare it with the score of other captions"

UNITS = {"perplexity": "perplexity"}

# Seed that draws the other image whose references judge captions.
SEED = 0


def caption_scores(
    kinds: ByKind,
    units: Mapping[str, str],
    examples: Examples,
    at: At | None = None,
    floors: ByKind | None = None,
    texts: Mapping[str, Answers] | None = None,
) -> list[Measured]:
    """Return the score of each metric for each kind of captions, and the gains of favourites.

    `units` are the units of metrics other than fractions, `floors` the statistics of some metrics
    with another image, and `texts` the captions of some kinds with the references. A score without
    a value, such as the precision of nouns when no caption contains a noun, is left out. Means over
    all images have examples.
    """
    measured: list[Measured] = []
    for kind, metrics in kinds.items():
        for name, statistics in metrics.items():
            value = _measure(name, statistics)
            # Of a mean, the smallest number of counted images over the seeds.
            n = int(statistics[..., 1].sum(1).min()) if _is_mean(name) else statistics.shape[1]
            scores = _score(name, {**(at or {}), "captions": kind}, value, n, units)
            other = (floors or {}).get(kind, {}).get(name)
            scores = [_with_floor(score, other) for score in scores]
            answers = (texts or {}).get(kind)
            measured += [_with_examples(score, statistics, examples, answers) for score in scores]
    return [*measured, *map(Measured, gains(kinds, units, at))]


def _with_floor(score: Score, other: Floats | None) -> Score:
    """Return a score with its floor, from statistics with another image, or why it has none."""
    value = None if other is None else _measure(score.metric, other)
    if value is None:
        why = OWN_SCALE if score.metric.startswith(MATCH) else DESCRIBES
        return replace(score, no_chance=why)
    return replace(score, floors={"another_image": value.estimate.value})


def _with_examples(
    score: Score, statistics: Floats, examples: Examples, answers: Answers | None
) -> Measured:
    """Return a score with its examples if it is a mean over all images."""
    mean = _is_mean(score.metric) and len(examples.ids) == statistics.shape[1]
    if mean and statistics[..., 1].all():
        return Measured(score, examples, trials(statistics[..., 0]), answers)
    return Measured(score)


def gains(kinds: ByKind, units: Mapping[str, str], at: At | None = None) -> list[Score]:
    """Return the scores of favourites minus the scores of earlier captions of the same images."""
    measured = []
    for name, statistics in kinds.get(FAVOURITES, {}).items():
        less = kinds[BEFORE][name][0]
        value = _measure(name, statistics, less)
        measured += _score(f"{name}_gain", dict(at or {}), value, len(less), units, chance=0.0)
    return measured


def measured_share(
    metric: str, at: At, credit: Floats, examples: Examples, **more: Any
) -> Measured:
    """Return the mean of [seeds, N] credits; a single seed has no trials."""
    choice, options = without_answer(torch.from_numpy(trials(credit))), Options((), (), None)
    return measure_items(
        Items(metric, choice, examples, options, at=dict(at), random="seeds", **more)
    )


def _is_mean(name: str) -> bool:
    """Return whether a score is a mean over counted images."""
    return name not in CORPORA and not name.startswith(PREFIX)


def _measure(name: str, statistics: Floats, less: Floats | None = None) -> OverSeeds | None:
    if name.startswith(PREFIX):
        return value_alone(statistics, less=less)
    ends = plain_ends if less is not None else ENDS.get(name, plain_ends)
    return over_seeds(statistics, formula_of(name), less=less, ends=ends)


def _score(
    name: str,
    at: At,
    estimate: OverSeeds | None,
    n: int,
    units: Mapping[str, str],
    *,
    chance: float | None = None,
) -> list[Score]:
    if estimate is None:
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
            **estimate.score(),
        )
    ]


# Judged captions of each seed by their kind.
Sets = Mapping[str, Sequence[JudgedCaptions]]


def metrics_part(
    subjects: Subjects, nouns: Nouns, text: TextScorer, metrics: Sequence[str], engine: Engine
) -> Outcome:
    """Return statistics and metrics of all kinds of captions, and the gains of favourites.

    The first reference is scored against the others; images with one reference have no such score.
    """
    references = [texts for texts in subjects.references if len(texts) > 1]
    human = JudgedCaptions([texts[0] for texts in references], [texts[1:] for texts in references])
    sets = {**judge_generated(subjects), **({REFERENCE: [human]} if len(references) > 1 else {})}
    kinds = statistics_of(sets, nouns, text)
    for kind, values in metrics_of(sets, metrics, engine).items():
        kinds[kind] |= values
    others = with_other_references(sets)
    floors = metrics_of(others, metrics, engine)
    for kind, of_nouns in statistics_of(others, nouns, text).items():
        floors[kind] |= {name: of_nouns[name] for name in FRACTIONS}
    return outcome_of(
        caption_scores(kinds, UNITS, subjects.examples, floors=floors, texts=subjects.generated),
        {"images_with_one_reference": len(subjects.references) - len(references), **_counts(kinds)},
    )


def judge_generated(subjects: Subjects) -> dict[str, list[JudgedCaptions]]:
    """Return the captioner's captions with the references that they are scored against."""
    favourites = [JudgedCaptions(captions, subjects.references) for captions in subjects.favourites]
    return {FAVOURITES: favourites, BEFORE: [JudgedCaptions(subjects.before, subjects.references)]}


def with_other_references(sets: Sets) -> dict[str, list[JudgedCaptions]]:
    """Return the same captions, each with the references of another image."""
    return {
        kind: [
            JudgedCaptions(captions, [references[i] for i in other_images(len(references), SEED)])
            for captions, references in judged
        ]
        for kind, judged in sets.items()
    }


def statistics_of(sets: Sets, nouns: Nouns, text: TextScorer) -> dict[str, dict[str, Floats]]:
    """Return the statistics of length, nouns and perplexity, [seeds, N, S] by kind."""
    return {
        kind: stack_seeds([caption_statistics(judgement, nouns, text) for judgement in judged])
        for kind, judged in sets.items()
    }


def metrics_of(sets: Sets, names: Sequence[str], engine: Engine) -> dict[str, dict[str, Floats]]:
    """Return the statistics of metrics of captions, [seeds, N, S] by kind."""
    named = {f"{kind} {i}": one for kind, judged in sets.items() for i, one in enumerate(judged)}
    statistics = metric_statistics(named, names, engine)
    return {
        kind: stack_seeds([statistics[f"{kind} {i}"] for i in range(len(judged))])
        for kind, judged in sets.items()
    }


def stack_seeds(of_seeds: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Return the statistics of each seed as one table, [seeds, N, S] by name."""
    return {name: np.stack([values[name] for values in of_seeds]) for name in of_seeds[0]}


def _counts(kinds: ByKind) -> dict[str, int]:
    """Return the number of captions without nouns, and of words that perplexity leaves out."""
    counts = {}
    for kind in KINDS:
        if kind in kinds:
            bare = kinds[kind]["nouns"][..., 0] == 0
            counts[f"{kind}_without_nouns"] = int(bare.sum())
            unknown = kinds[kind]["perplexity"][..., 2].sum()
            counts[f"{kind}_unknown_words"] = int(unknown)
    return counts
