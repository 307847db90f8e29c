"""Do other models like what one model likes? The square of arXiv:2210.09550, table 2.

The model's favourite captions, as in `caption_patterns`, are scored by every scorer: the model's
row of the square. `outscores_ce` is the share of images whose favourite outscores the caption
before the reward, which does not depend on the scale of scores; `outscores_ce_of_others` is its
mean over the scorers other than the model. Scores that are no probabilities say so in their unit
and enter no mean over scorers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vlbench.capabilities import ImageEncoder, ImageTextScorer
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.metrics.captions import CAPTION_METRICS
from vlbench.metrics.items import Examples, outcome_of
from vlbench.metrics.statistics import Floats
from vlbench.probes.captioning.caption_metrics import (
    PROBABILITY,
    generated,
    metrics_of,
    score_kind,
    tie_notes,
    tied_share,
)
from vlbench.probes.captioning.caption_scores import (
    BEFORE,
    FAVOURITES,
    MATCH,
    ByKind,
    Preference,
    caption_scores,
    measured_preference,
    measured_share,
    preference,
)
from vlbench.probes.captioning.caption_sets import (
    TEST_IMAGES,
    Images,
    Plan,
    Subjects,
    collect,
    match_scores,
)
from vlbench.probes.captioning.caption_statistics import available_metrics
from vlbench.probes.captioning.captioner import Captioner
from vlbench.probes.captioning.estimates import counted, joined
from vlbench.probes.captioning.scoring import PairScorer
from vlbench.results import Outcome

OUTSCORES = "outscores_ce"
OTHERS = "of_others"


class Scored(NamedTuple):
    """What one scorer gives favourites and captions before, [seeds, N]; whether it is the model."""

    name: str
    unit: str
    is_own: bool
    scores: Mapping[str, Floats]

    @property
    def preferred(self) -> Preference:
        """How far favourites outscore captions before."""
        return preference(self.scores[FAVOURITES], self.scores[BEFORE])

    @property
    def at(self) -> dict[str, str]:
        """The condition of its scores."""
        return {"scorer": self.name}


def caption_cross(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageTextScorer,
    data: Data,
    engine: Engine,
    *,
    scorers: list[ImageTextScorer],
    captioner: Captioner,
    encoders: list[ImageEncoder],
    images: Images = TEST_IMAGES,
    seeds: int = 3,
    seed: int = 0,
    metrics: Sequence[str] = CAPTION_METRICS,
) -> Outcome:
    """Return what each scorer gives the model's favourites and the captions before.

    The model itself is one of the scorers, named or not. Raises ValueError where it is the only
    one, and TooFewRows for fewer than two images.
    """
    named = {engine.name_of(one): one for one in [model, *scorers]}
    own = engine.name_of(model)
    if len(named) < 2:
        raise ValueError(f"scorers {list(named)}: wanted another one than the model")
    names, notes = available_metrics(metrics)
    subjects, _ = collect(model, data, engine, Plan(captioner, encoders, images, seeds, seed))
    found = [
        Scored(
            name,
            score_kind(one),
            name == own,
            _scores(one, data, subjects, engine, images),
        )
        for name, one in named.items()
    ]
    told = metrics_of(generated(subjects), names, engine)
    examples = subjects.examples
    parts = [
        _others(found, examples),
        *(_part(one, examples) for one in found),
        outcome_of(caption_scores(told, {}, examples), notes=notes),
    ]
    return joined(parts, {})


def _scores(
    scorer: ImageTextScorer, data: Data, subjects: Subjects, engine: Engine, images: Images
) -> dict[str, Floats]:
    """Return a scorer's scores; it gets the same images with regions of its own kind."""
    rows = images.of(engine.read_by(scorer, data))
    kinds = {kind: subjects.kinds[kind] for kind in (FAVOURITES, BEFORE)}
    return match_scores(PairScorer(scorer, rows, engine), kinds, range(len(rows)))


def _part(one: Scored, examples: Examples) -> Outcome:
    """Return the scores of one scorer."""
    means: ByKind = {kind: {MATCH: counted(values)} for kind, values in one.scores.items()}
    preferred = one.preferred
    measured = [
        measured_preference(OUTSCORES, one.at, preferred, examples, (FAVOURITES, BEFORE)),
        tied_share(OUTSCORES, one.at, preferred, examples),
        *caption_scores(means, {MATCH: one.unit}, examples, one.at),
    ]
    counts = preferred.counts if one.is_own else {}
    return outcome_of(measured, counts, tie_notes(OUTSCORES, one.at, preferred))


def _others(found: Sequence[Scored], examples: Examples) -> Outcome:
    """Return the means over the scorers other than the model."""
    others = [one for one in found if not one.is_own]
    credit = np.mean([one.preferred.credit for one in others], 0)
    metric = f"{OUTSCORES}_{OTHERS}"
    measured = [measured_share(metric, {}, credit, examples, chance=0.5)]
    probable = [one for one in others if one.unit == PROBABILITY]
    notes = [f"mean over {', '.join(one.name for one in others)}: {metric}"]
    if probable:
        metric = f"{MATCH}_{OTHERS}"
        means: ByKind = {
            kind: {metric: counted(np.mean([one.scores[kind] for one in probable], 0))}
            for kind in (FAVOURITES, BEFORE)
        }
        measured += caption_scores(means, {metric: PROBABILITY}, examples)
        notes.append(f"mean over {', '.join(one.name for one in probable)}: {metric}")
    left = [f"{one.name} ({one.unit})" for one in others if one not in probable]
    if left:
        notes.append(f"scores that are no probabilities enter no mean: {', '.join(left)}")
    return outcome_of(measured, notes=notes)
