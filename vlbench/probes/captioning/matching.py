"""Preferences between two kinds of captions by a model's matching scores, with controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from vlbench.asking.pair_scores import PairScorer, other_images, published_kind
from vlbench.metrics.gains import gain
from vlbench.metrics.intervals import Floats, ratio
from vlbench.metrics.items import Examples, Items, Measured, Options, outcome_of, trials
from vlbench.metrics.language_model import TextScorer
from vlbench.metrics.ranking import Choice, choose
from vlbench.metrics.scores import measure_items
from vlbench.probes.captioning.caption_scores import (
    DESCRIBES,
    ByKind,
    caption_scores,
    gains,
    measured_share,
)
from vlbench.probes.captioning.caption_sets import Kinds, Subjects, match_scores, published_scores
from vlbench.probes.captioning.caption_statistics import over_seeds, with_ones
from vlbench.probes.captioning.kinds import BEFORE, FAVOURITES, MATCH, REFERENCE
from vlbench.probes.captioning.pairwise import TIED
from vlbench.results import RANGES, At, Outcome, Score, gain_range

# The floor of matching scores: first references of other test images.
OF_ANOTHER = "reference_of_another_image"

PREFERS = "prefers_reference"

WIN_RATE = "win_rate_vs_cross_entropy"

# A run has collapsed if it has fewer distinct favourites than one per COLLAPSED images.
COLLAPSED = 10


def preference(first: Floats, second: Floats, *, log_odds: bool = False) -> Choice:
    """Return the choices [seeds, N] between scores, each [seeds, N], or [1, N] for all seeds.

    The first is right; credit is 1, 1/2 or 0. Scores are tied as in
    `vlbench.metrics.ranking.choose`. Raises ValueError for a score that is not finite.
    """
    pairs = np.stack(np.broadcast_arrays(first, second), -1)
    flat = torch.from_numpy(pairs.reshape(-1, 2))
    choice = choose(flat, torch.zeros(len(flat), dtype=torch.int64), log_odds=log_odds)
    return Choice(*(part.reshape(pairs.shape[:-1]) for part in choice))


def count_ties(preferred: Choice) -> dict[str, int]:
    """Return the numbers of tied choices and of all choices."""
    return {"ties": int(preferred.tied.sum()), "choices": preferred.tied.numel()}


def measured_preference(
    metric: str,
    at: At,
    preferred: Choice,
    examples: Examples,
    names: Sequence[str],
    floors: Mapping[str, Choice] = {},
) -> Measured:
    """Return how often the first of two kinds of captions is preferred; chance is 1/2."""
    choice = Choice(*map(trials, preferred))
    options = Options(names, np.zeros(len(examples.ids), np.int64), 0.5)
    return measure_items(Items(metric, choice, examples, options, floors, at, random="seeds"))


def matching_part(
    scorer: PairScorer, subjects: Subjects, text: TextScorer, *, seed: int
) -> tuple[Outcome, dict[str, Floats]]:
    """Return preferences and mean scores under a model, and published scores [seeds, N] by kind.

    Preferences are for the favourites, and for the favourites after each budget.
    """
    unit = published_kind(scorer.kind)
    rows = range(len(subjects.before))
    first = subjects.kinds[REFERENCE][0]
    others = other_images(subjects.rows, seed)
    kinds: Kinds = {**subjects.kinds, OF_ANOTHER: [[first[i] for i in others]]}
    scores = match_scores(scorer, kinds, rows)
    printed = published_scores(scores, scorer.kind)
    means: ByKind = {kind: {MATCH: with_ones(values)} for kind, values in printed.items()}
    floors: ByKind = {kind: means[OF_ANOTHER] for kind in means if kind != OF_ANOTHER}
    examples, preferred = subjects.examples, _prefer_reference(scores, scorer.log_odds)
    measured = [
        *_preferences(scorer, subjects, text, scores, others, {}),
        tied_share(PREFERS, {}, preferred, examples),
        *caption_scores(means, {MATCH: unit}, examples, floors=floors, texts=subjects.generated),
    ]
    late, notes = convergence(scorer, subjects, printed[FAVOURITES])
    measured.append(late)
    for budget, captions in subjects.by_budget.items():
        after, at = subjects._replace(favourites=captions), {"budget": budget}
        by_kind = match_scores(scorer, after.kinds, rows)
        measured += _preferences(scorer, after, text, by_kind, others, at)
        scores_by_kind: ByKind = {
            kind: {MATCH: with_ones(values)}
            for kind, values in published_scores(by_kind, scorer.kind).items()
        }
        measured += [Measured(score) for score in gains(scores_by_kind, {MATCH: unit}, at)]
    notes += tie_notes(PREFERS, {}, preferred)
    collapsed = collapse_part(subjects)
    notes += collapsed.notes
    return outcome_of(measured, {**count_ties(preferred), **collapsed.counts}, notes), printed


def _preferences(
    scorer: PairScorer,
    subjects: Subjects,
    text: TextScorer,
    scores: Mapping[str, Floats],
    others: Sequence[int],
    at: At,
) -> list[Measured]:
    """Return how often references and favourites win, and the number of distinct favourites."""
    kinds, examples = subjects.kinds, subjects.examples
    pair = {kind: kinds[kind] for kind in (FAVOURITES, REFERENCE)}
    of_another = match_scores(scorer, pair, others)
    by_text = {
        kind: np.stack([text(list(of_seed)).numpy() for of_seed in captions])
        for kind, captions in pair.items()
    }
    own, another = (_prefer_reference(one, scorer.log_odds) for one in (scores, of_another))
    alone = _prefer_reference(by_text, log_odds=True)
    floors = {"another_image": another, "text_only": alone}
    won = preference(scores[FAVOURITES], scores[BEFORE], log_odds=scorer.log_odds)
    return [
        measured_preference(PREFERS, at, own, examples, (REFERENCE, FAVOURITES), floors),
        gain(f"{PREFERS}_gain_from_image", own.credit, another.credit, examples, at),
        measured_preference(WIN_RATE, at, won, examples, (FAVOURITES, BEFORE)),
        Measured(_count_distinct(subjects.favourites, at)),
    ]


def _count_distinct(favourites: Sequence[Sequence[str]], at: At) -> Score:
    """Return the number of distinct captions of a seed, as a mean over seeds."""
    draws = [float(len(set(captions))) for captions in favourites]
    return Score(
        metric="distinct_favourites",
        value=float(np.mean(draws)),
        n=len(favourites[0]),
        at=at,
        draws=draws if len(draws) > 1 else (),
        unit="captions",
        no_chance=DESCRIBES,
    )


def convergence(scorer: PairScorer, subjects: Subjects, last: Floats) -> tuple[Measured, list[str]]:
    """Return how much the reward of the test images rose over the last epochs of SCST.

    Also return a note if the interval is above 0, so that the reward was still rising. `last` are
    the published scores [seeds, N] of favourites. No other score shows that SCST has not
    converged.
    """
    rows, unit = range(len(subjects.before)), published_kind(scorer.kind)
    scores = match_scores(scorer, {FAVOURITES: subjects.before_last}, rows)
    earlier = published_scores(scores, scorer.kind)[FAVOURITES]
    value = over_seeds(with_ones(last - earlier), ratio)
    assert value
    limits = gain_range(RANGES.get(unit, (None, None)))
    name, n = f"late_{MATCH}_gain", len(rows)
    score = Score(name, n=n, unit=unit, chance=0.0, range=limits, **value.score())
    measured = Measured(score, subjects.examples, trials(last - earlier))
    note = (
        f"SCST had not converged: over its last epochs the matching score of test images still "
        f"rose by {score.value:.3g} ({name})"
    )
    return measured, [note] if score.ci95 and score.ci95[0] > 0 else []


def collapse_part(subjects: Subjects) -> Outcome:
    """Return the number of seeds whose favourites have collapsed to a few sentences, and a note."""
    images = len(subjects.before)
    different = [len(set(captions)) for captions in subjects.favourites]
    collapsed = [number for number in different if number * COLLAPSED < images]
    note = (
        f"{len(collapsed)} of {len(different)} runs collapsed: their favourites of {images} "
        f"images are {', '.join(map(str, collapsed))} different sentences, fewer than a tenth; "
        "they show what the model prefers, and no finding is judged on them"
    )
    counts = {"collapsed_runs": len(collapsed)}
    return Outcome([], counts=counts, notes=[note] if collapsed else [])


def tied_share(metric: str, at: At, preferred: Choice, examples: Examples) -> Measured:
    """Return how often choices are tied."""
    tied = preferred.tied.double().numpy()
    more = {"higher_is_better": False, "no_chance": TIED}
    return measured_share(f"{metric}_tied", at, tied, examples, **more)


def tie_notes(metric: str, at: At, preferred: Choice) -> list[str]:
    """Return a note if any choice is tied."""
    share_name = " ".join([metric, *map(str, at.values())])
    ties, choices = count_ties(preferred).values()
    note = (
        f"{share_name}: the scores are tied in {ties} of {choices} choices "
        "(within 1e-6); tied choices share the credit"
    )
    return [note] if ties else []


def _prefer_reference(scores: Mapping[str, Floats], log_odds: bool) -> Choice:
    return preference(scores[REFERENCE], scores[FAVOURITES], log_odds=log_odds)
