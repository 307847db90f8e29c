"""Length, nouns, perplexity and metrics of captions by kind. arXiv:2210.09550, tables 2 and 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vlbench.engine import Engine
from vlbench.metrics.statistics import Floats
from vlbench.probes.captioning.caption_scores import (
    BEFORE,
    FAVOURITES,
    KINDS,
    REFERENCE,
    ByKind,
    caption_scores,
    statistics_items,
)
from vlbench.probes.captioning.caption_statistics import caption_statistics
from vlbench.probes.captioning.controls import TextScorer
from vlbench.probes.captioning.metric_statistics import Judged, metric_statistics
from vlbench.probes.captioning.nouns import Nouns
from vlbench.probes.captioning.parts import Part
from vlbench.probes.captioning.subjects import Subjects

UNITS = {"perplexity": "perplexity"}

# Judged captions of each seed by their kind.
Sets = Mapping[str, Sequence[Judged]]


def telling_part(
    subjects: Subjects, nouns: Nouns, text: TextScorer, metrics: Sequence[str], engine: Engine
) -> Part:
    """Return statistics and metrics of all kinds of captions, and the gains of favourites.

    The first reference is judged by the others; images with one reference have no such score.
    """
    several = [texts for texts in subjects.references if len(texts) > 1]
    human = Judged([texts[0] for texts in several], [texts[1:] for texts in several])
    sets = {**generated(subjects), **({REFERENCE: [human]} if len(several) > 1 else {})}
    kinds = statistics_of(sets, nouns, text)
    for kind, found in metrics_of(sets, metrics, engine).items():
        kinds[kind] |= found
    return Part(
        caption_scores(kinds, UNITS),
        statistics_items(kinds, subjects.examples),
        {"images_with_one_reference": len(subjects.references) - len(several), **_counts(kinds)},
    )


def generated(subjects: Subjects) -> dict[str, list[Judged]]:
    """Return the captioner's captions with the references that they are judged by."""
    favourites = [Judged(captions, subjects.references) for captions in subjects.favourites]
    return {FAVOURITES: favourites, BEFORE: [Judged(subjects.before, subjects.references)]}


def statistics_of(sets: Sets, nouns: Nouns, text: TextScorer) -> dict[str, dict[str, Floats]]:
    """Return the statistics of length, nouns and perplexity, [seeds, N, S] by kind."""
    return {
        kind: _stacked([caption_statistics(one, nouns, text) for one in judged])
        for kind, judged in sets.items()
    }


def metrics_of(sets: Sets, names: Sequence[str], engine: Engine) -> dict[str, dict[str, Floats]]:
    """Return the statistics of metrics of captions, [seeds, N, S] by kind."""
    named = {f"{kind} {i}": one for kind, judged in sets.items() for i, one in enumerate(judged)}
    found = metric_statistics(named, names, engine)
    return {
        kind: _stacked([found[f"{kind} {i}"] for i in range(len(judged))])
        for kind, judged in sets.items()
    }


def _stacked(of_seeds: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    return {name: np.stack([found[name] for found in of_seeds]) for name in of_seeds[0]}


def _counts(kinds: ByKind) -> dict[str, int]:
    """Return the numbers of captions without a noun, and of words that perplexity leaves out."""
    counts = {}
    for kind in KINDS:
        if kind in kinds:
            bare = kinds[kind]["nouns"][..., 0] == 0
            counts[f"{kind}_without_nouns"] = int(bare.sum())
            unknown = kinds[kind]["perplexity"][..., 2].sum()
            counts[f"{kind}_unknown_words"] = int(unknown)
    return counts
