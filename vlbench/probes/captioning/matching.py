"""Which of two kinds of captions a model prefers, by its matching scores, and its controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vlbench.metrics.intervals import Floats, ratio
from vlbench.metrics.items import Answers, Examples, Measured, outcome_of
from vlbench.metrics.ranking import choose
from vlbench.probes.captioning.caption_scores import (
    MATCH,
    At,
    ByKind,
    caption_scores,
    measured_share,
    untried,
)
from vlbench.probes.captioning.caption_sets import (
    FAVOURITES,
    REFERENCE,
    Kinds,
    Subjects,
    match_scores,
)
from vlbench.probes.captioning.caption_statistics import counted, over_seeds
from vlbench.probes.captioning.pairwise import TIED, gain_score
from vlbench.probes.captioning.scorers import PairScorer, TextScorer, other_images
from vlbench.results import Outcome


class Preference(NamedTuple):
    """How far the first of two is preferred: credit 1, 1/2 or 0 of each image, [seeds, N].

    `chosen` is 0 for the first, 1 for the second, and -1 where both are tied.
    """

    credit: Floats
    chosen: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """How often the first is preferred."""
        return float(self.credit.mean())

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


def measured_preference(
    metric: str,
    at: At,
    preference: Preference,
    examples: Examples,
    names: Sequence[str],
    **more: Any,
) -> Measured:
    """Return how often the first of two kinds of captions is preferred; chance is 1/2."""
    right = np.zeros(len(examples.ids), np.int64)
    measured = measured_share(metric, at, preference.credit, examples, chance=0.5, **more)
    return measured._replace(answers=Answers(list(names), untried(preference.chosen), right))


# The floor of matching scores: first references of other test images.
OF_ANOTHER = "reference_of_another_image"

PREFERS = "prefers_reference"

NOT_RAISED = (
    "SCST did not raise the matching score: the interval of match_score_gain includes 0, so that "
    "favourites are hardly more than the captions before"
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
    preferred = _prefer_reference(scores)
    another = _prefer_reference(match_scores(scorer, pair, others))
    alone = _prefer_reference({k: _score_by_text(text, told) for k, told in pair.items()})
    means: ByKind = {kind: {MATCH: counted(values)} for kind, values in scores.items()}
    floors: ByKind = {kind: means[OF_ANOTHER] for kind in means if kind != OF_ANOTHER}
    examples, named = subjects.examples, (REFERENCE, FAVOURITES)
    below = {"another_image": another.mean, "text_only": alone.mean}
    measured = [
        measured_preference(PREFERS, {}, preferred, examples, named, floors=below),
        measured_gain(PREFERS, {}, preferred, another, examples),
        tied_share(PREFERS, {}, preferred, examples),
        *caption_scores(means, {MATCH: unit}, examples, floors=floors),
    ]
    (gain,) = [one.score for one in measured if one.score.metric == f"{MATCH}_gain"]
    assert gain.ci95
    notes = [NOT_RAISED] if gain.ci95[0] <= 0 <= gain.ci95[1] else []
    notes += tie_notes(PREFERS, {}, preferred)
    return outcome_of(measured, preferred.counts, notes), scores


def measured_gain(
    metric: str, at: At, own: Preference, another: Preference, examples: Examples
) -> Measured:
    """Return how much more often the first is preferred than with another image, by image."""
    difference = own.credit - another.credit
    value = over_seeds(counted(difference), ratio)
    assert value
    score = gain_score(metric, at, difference.shape[1], **value.score())
    return Measured(score, examples, untried(difference))


def tied_share(
    metric: str, at: Mapping[str, str], preference: Preference, examples: Examples
) -> Measured:
    """Return how often the choices of a share are tied."""
    tied = (preference.chosen < 0).astype(np.float64)
    more = {"higher_is_better": False, "no_chance": TIED}
    return measured_share(f"{metric}_tied", at, tied, examples, **more)


def tie_notes(metric: str, at: Mapping[str, str], found: Preference) -> list[str]:
    """Return a note where any choice of a share is tied."""
    share_name = " ".join([metric, *at.values()])
    note = (
        f"{share_name}: the scores are tied in {found.ties} of {found.chosen.size} choices (within "
        "1e-6 of the larger), and share the credit"
    )
    return [note] if found.ties else []


def _prefer_reference(scores: Mapping[str, Floats]) -> Preference:
    return preference(scores[REFERENCE], scores[FAVOURITES])


def _score_by_text(text: TextScorer, captions: Sequence[Sequence[str]]) -> Floats:
    return np.stack([text(list(of_seed)).numpy() for of_seed in captions])
