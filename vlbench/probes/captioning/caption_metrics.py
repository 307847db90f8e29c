"""What kind of number a model's matching score is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vlbench.capabilities import SharedSpace
from vlbench.engine import Engine
from vlbench.metrics.items import Examples, Measured, outcome_of
from vlbench.metrics.statistics import Floats
from vlbench.probes.captioning.caption_scores import (
    BEFORE,
    FAVOURITES,
    KINDS,
    MATCH,
    REFERENCE,
    ByKind,
    Preference,
    caption_scores,
    measured_preference,
    measured_share,
    preference,
)
from vlbench.probes.captioning.caption_sets import Kinds, Subjects, match_scores
from vlbench.probes.captioning.caption_statistics import (
    Judged,
    caption_statistics,
    metric_statistics,
)
from vlbench.probes.captioning.controls import TextScorer, other_images
from vlbench.probes.captioning.estimates import counted
from vlbench.probes.captioning.nouns import Nouns
from vlbench.probes.captioning.scoring import PairScorer
from vlbench.results import Outcome

PROBABILITY, COSINE = "probability", "cosine"


def score_kind(model: Any) -> str:
    """Return the adapter's own `score_kind`, else cosine for two towers, and probability.

    Those of different kinds, and of different models unless they are probabilities, have no mean.
    """
    own = getattr(model, "score_kind", "")
    return str(own) if own else COSINE if isinstance(model, SharedSpace) else PROBABILITY


# The floor of matching scores: first references of other test images.
OF_ANOTHER = "reference_of_another_image"

PREFERS = "prefers_reference"

NOTHING = (
    "SCST found nothing: the interval of match_score_gain holds 0, so that favourites are hardly "
    "more than the captions before"
)


def matching_part(
    scorer: PairScorer, subjects: Subjects, text: TextScorer, unit: str, *, seed: int
) -> tuple[Outcome, dict[str, Floats]]:
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
    examples, named = subjects.examples, (REFERENCE, FAVOURITES)
    measured = [
        *(measured_preference(name, {}, one, examples, named) for name, one in found.items()),
        tied_share(PREFERS, {}, found[PREFERS], examples),
        *caption_scores(means, {MATCH: unit}, examples),
    ]
    (gain,) = [one.score for one in measured if one.score.metric == f"{MATCH}_gain"]
    assert gain.ci95
    notes = [NOTHING] if gain.ci95[0] <= 0 <= gain.ci95[1] else []
    notes += tie_notes(PREFERS, {}, found[PREFERS])
    return outcome_of(measured, found[PREFERS].counts, notes), scores


def tied_share(
    metric: str, at: Mapping[str, str], found: Preference, examples: Examples
) -> Measured:
    """Return how often the choices of a share are tied."""
    tied = (found.chosen < 0).astype(np.float64)
    return measured_share(f"{metric}_tied", at, tied, examples, higher_is_better=False)


def tie_notes(metric: str, at: Mapping[str, str], found: Preference) -> list[str]:
    """Return a note where any choice of a share is tied."""
    told = " ".join([metric, *at.values()])
    note = (
        f"{told}: the scores are tied in {found.ties} of {found.chosen.size} choices (within 1e-6 "
        "of the larger), and share the credit"
    )
    return [note] if found.ties else []


def _preferred(scores: Mapping[str, Floats]) -> Preference:
    return preference(scores[REFERENCE], scores[FAVOURITES])


def _by_text(text: TextScorer, captions: Sequence[Sequence[str]]) -> Floats:
    return np.stack([text(list(of_seed)).numpy() for of_seed in captions])


UNITS = {"perplexity": "perplexity"}

# Judged captions of each seed by their kind.
Sets = Mapping[str, Sequence[Judged]]


def telling_part(
    subjects: Subjects, nouns: Nouns, text: TextScorer, metrics: Sequence[str], engine: Engine
) -> Outcome:
    """Return statistics and metrics of all kinds of captions, and the gains of favourites.

    The first reference is judged by the others; images with one reference have no such score.
    """
    several = [texts for texts in subjects.references if len(texts) > 1]
    human = Judged([texts[0] for texts in several], [texts[1:] for texts in several])
    sets = {**generated(subjects), **({REFERENCE: [human]} if len(several) > 1 else {})}
    kinds = statistics_of(sets, nouns, text)
    for kind, found in metrics_of(sets, metrics, engine).items():
        kinds[kind] |= found
    return outcome_of(
        caption_scores(kinds, UNITS, subjects.examples),
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
