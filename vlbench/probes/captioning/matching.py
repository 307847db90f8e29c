"""Matching scores of captions: which of two a model prefers, mean scores, and the gain of SCST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vlbench.metrics.items import Examples, item_table
from vlbench.metrics.statistics import Floats
from vlbench.probes.captioning.caption_scores import (
    FAVOURITES,
    MATCH,
    REFERENCE,
    ByKind,
    caption_scores,
    preference_items,
    preference_score,
    share_score,
    statistics_items,
    untried,
)
from vlbench.probes.captioning.controls import TextScorer, other_images
from vlbench.probes.captioning.estimates import counted
from vlbench.probes.captioning.parts import Part
from vlbench.probes.captioning.preferences import Preference, preference
from vlbench.probes.captioning.scoring import PairScorer
from vlbench.probes.captioning.subjects import Kinds, Subjects, match_scores

# The floor of matching scores: first references of other test images.
OF_ANOTHER = "reference_of_another_image"

PREFERS = "prefers_reference"

NOTHING = (
    "SCST found nothing: the interval of match_score_gain holds 0, so that favourites are hardly "
    "more than the captions before"
)


def matching_part(
    scorer: PairScorer, subjects: Subjects, text: TextScorer, unit: str, *, seed: int
) -> tuple[Part, dict[str, Floats]]:
    """Return preferences and mean scores under a model, and the scores [seeds, N] by kind.

    `unit` is the kind of its scores.
    """
    rows = range(len(subjects.before))
    others = other_images(len(rows), seed)
    first = subjects.kinds[REFERENCE][0]
    kinds: Kinds = {**subjects.kinds, OF_ANOTHER: [[first[i] for i in others]]}
    scores = match_scores(scorer, kinds, rows)
    pair = {kind: subjects.kinds[kind] for kind in (FAVOURITES, REFERENCE)}
    found = {
        PREFERS: _preferred(scores),
        f"{PREFERS}_another_image": _preferred(match_scores(scorer, pair, others)),
        f"{PREFERS}_text_only": _preferred({k: _by_text(text, told) for k, told in pair.items()}),
    }
    means: ByKind = {kind: {MATCH: counted(values)} for kind, values in scores.items()}
    shares = [preference_score(name, {}, one) for name, one in found.items()]
    named = (REFERENCE, FAVOURITES)
    items = [
        preference_items(name, {}, one, subjects.examples, named) for name, one in found.items()
    ]
    tied = tied_part(PREFERS, {}, found[PREFERS], subjects.examples)
    measured = caption_scores(means, {MATCH: unit})
    (gain,) = [score for score in measured if score.metric == f"{MATCH}_gain"]
    assert gain.ci95
    part = Part(
        [*shares, *tied.scores, *measured],
        [*items, *tied.items, *statistics_items(means, subjects.examples)],
        tied.counts,
        [*([NOTHING] if gain.ci95[0] <= 0 <= gain.ci95[1] else []), *tied.notes],
    )
    return part, scores


def tied_part(metric: str, at: Mapping[str, str], found: Preference, examples: Examples) -> Part:
    """Return how often the choices of a share are tied, and a note where any is."""
    tied = (found.chosen < 0).astype(np.float64)
    name, choices = f"{metric}_tied", found.chosen.size
    told = " ".join([metric, *at.values()])
    note = (
        f"{told}: the scores are tied in {found.ties} of {choices} choices (within 1e-6 of the "
        "larger), and share the credit"
    )
    return Part(
        [replace(share_score(name, at, tied), higher_is_better=False)],
        [item_table(examples, name, at, untried(tied))],
        {"ties": found.ties, "choices": choices},
        [note] if found.ties else [],
    )


def _preferred(scores: Mapping[str, Floats]) -> Preference:
    return preference(scores[REFERENCE], scores[FAVOURITES])


def _by_text(text: TextScorer, captions: Sequence[Sequence[str]]) -> Floats:
    return np.stack([text(list(of_seed)).numpy() for of_seed in captions])
