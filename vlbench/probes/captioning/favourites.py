"""Favourite captions of a matching model, and their scores under other models. arXiv:2210.09550.

A captioner is trained on captions, then on a model's matching score; the captions that it then
generates for test images are the model's *favourites*, one set per seed.

`caption_patterns` (sections 3 and 4, tables 2, 4 and 5): `prefers_reference` is the fraction of
images whose first reference outscores the favourite. It does not depend on the scale of scores, is
1/2 for a model that scores all captions alike, and is low for a model that can be led away from
human captions. Its floors are the same texts for another test image, and a trigram model of the
training captions instead of the model; `prefers_reference_gain_from_image` is the difference to the
first floor. Departures: favourites of several seeds count, and in addition to the paper's patterns,
patterns found in favourites of other images are counted. The preference depends on the length of
SCST: with several budgets, each has its scores and the number of distinct favourites of a seed; all
other scores use the largest budget.

A run of SCST has collapsed if it has fewer distinct favourites than a tenth of the images; the row
counts such runs (`collapsed_runs`). If the gain of test scores over the last epochs is above 0
(`late_match_score_gain`), SCST has not converged; an interval that includes 0 does not show that it
has.

`caption_cross` (the square of table 2): the model's favourites are scored by every scorer, which
gives the model's row of the square. `win_rate_vs_cross_entropy` is the fraction of images whose
favourite outscores the caption before the reward, which does not depend on the scale of scores.
Scores are not averaged over scorers. In addition to caption metrics, precision and recall of nouns
are scored, because CIDEr can rise for captions without nouns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from vlbench.asking.pair_scores import PairScorer, published_kind
from vlbench.capabilities import (
    ImageTextScorer,
    RegionEncoder,
    count_truncated,
    is_log_odds,
    score_kind,
)
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.metrics.captions import CAPTION_METRICS
from vlbench.metrics.intervals import Floats, clustered_fraction
from vlbench.metrics.items import Answers, Examples, Measured, outcome_of
from vlbench.metrics.language_model import TextScorer
from vlbench.metrics.ranking import Choice
from vlbench.probes.captioning.caption_scores import (
    ByKind,
    Sets,
    caption_scores,
    judge_generated,
    metrics_of,
    metrics_part,
    stack_seeds,
    with_other_references,
)
from vlbench.probes.captioning.caption_sets import (
    TEST_IMAGES,
    CaptionedRows,
    CaptionPlan,
    Images,
    Subjects,
    collect,
    match_scores,
    published_scores,
)
from vlbench.probes.captioning.caption_statistics import (
    available_metrics,
    join_outcomes,
    noun_fractions,
    with_ones,
)
from vlbench.probes.captioning.caption_tables import (
    caption_table,
    example_table,
    history_table,
    unigram_table,
)
from vlbench.probes.captioning.captioner import Captioner, Favourites
from vlbench.probes.captioning.kinds import BEFORE, FAVOURITES, MATCH
from vlbench.probes.captioning.matching import (
    WIN_RATE,
    collapse_part,
    convergence,
    count_ties,
    matching_part,
    measured_preference,
    preference,
    tie_notes,
    tied_share,
)
from vlbench.probes.captioning.nouns import (
    TAGGED_CAPTIONS,
    Nouns,
    NounSource,
    find_nouns,
)
from vlbench.probes.captioning.patterns import pattern_part
from vlbench.results import At, Outcome, Positive, Score


def training_part(trained: Sequence[Favourites]) -> Outcome:
    """Return the fraction of sampled captions with a nonzero advantage.

    Under a saturated model, most samples have none. With several seeds, the interval uses Student's
    t.
    """
    draws = [run.share_nonzero_advantage for run in trained]
    seeds, value = len(draws), float(np.mean(draws))
    stderr, interval = None, None
    if seeds > 1:
        _, stderr, interval = clustered_fraction(np.array(draws), np.ones(seeds))
    score = Score(
        metric="nonzero_advantages",
        value=value,
        n=seeds,
        stderr=stderr,
        ci95=interval,
        draws=draws if seeds > 1 else [],
        no_chance="describes the training: a saturated scorer gives no advantage",
    )
    return Outcome([score], counts={"scored_in_training": sum(one.scored for one in trained)})


def caption_patterns(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageTextScorer,
    data: CaptionedRows,
    engine: Engine,
    *,
    captioner: Captioner,
    encoder: RegionEncoder | None = None,
    images: Images = TEST_IMAGES,
    seeds: Positive = 3,
    seed: int = 0,
    nouns: NounSource = TAGGED_CAPTIONS,
    metrics: Sequence[str] = CAPTION_METRICS,
) -> Outcome:
    """Return statistics of a model's favourite captions, and its preference for human captions.

    Raises TooFewRows for fewer than two images.

    Args:
        captioner: settings of the captioner and its training, or the folder of a trained captioner
            (`weights`).
        encoder: region encoder whose vectors the captioner reads; None: the region vectors of the
            data.
        images: the `split` whose images are read, and how many of the `first` ones (null: all).
        seeds: number of trainings on the model's score, 1 or more, with seeds from `seed` on.
        seed: first seed of the trainings; also draws other images, halves for patterns, and
            examples.
        nouns: spaCy `pipeline` (null: tags of the data), nouns to `leave_out`, `split` of training
            captions.
        metrics: caption metrics: bleu_1 to bleu_4, meteor, rouge_l, cider, spice (left out without
            its jars).
    """
    plan = CaptionPlan(captioner, encoder, images, seeds, seed)
    # Missing requirements are reported before hours of training.
    words, (names, notes) = find_nouns(data, engine, nouns), available_metrics(metrics)
    subjects, trained = collect(model, data, engine, plan)
    text = TextScorer(data.splits["train"]["captions"])
    scorer = PairScorer(model, subjects.rows, engine)
    matched, scores = matching_part(scorer, subjects, text, seed=seed)
    tagged = {kind: [words.tagged(of) for of in seeds] for kind, seeds in subjects.kinds.items()}
    texts = [text for seeds in subjects.kinds.values() for captions in seeds for text in captions]
    return join_outcomes(
        [
            matched,
            training_part(trained),
            metrics_part(subjects, words, text, names, engine),
            pattern_part(tagged, subjects.examples, seed=seed),
            Outcome([], counts=count_truncated(model, texts), notes=notes),
        ],
        {
            "captions": caption_table(subjects, scores),
            "unigrams": unigram_table({kind: chain(*seeds) for kind, seeds in tagged.items()}),
            "examples": example_table(subjects, scores, seed=seed),
            "history": history_table(trained),
        },
    )


class Scored(NamedTuple):
    """A scorer's scores of favourites and of captions before the reward, [seeds, N].

    `kind` is the kind of the scores; `is_own` is whether the scorer is the model under test.
    """

    name: str
    kind: str
    is_own: bool
    scores: Mapping[str, Floats]

    @property
    def preferred(self) -> Choice:
        """How often favourites outscore captions before the reward."""
        first, second = (self.scores[kind] for kind in (FAVOURITES, BEFORE))
        return preference(first, second, log_odds=is_log_odds(self.kind))

    @property
    def published(self) -> dict[str, Floats]:
        """The scores as papers print them."""
        return published_scores(self.scores, self.kind)

    @property
    def at(self) -> dict[str, str]:
        """The condition of the scores."""
        return {"scorer": self.name}

    def measure(self, examples: Examples, at: At) -> Measured:
        """Return how often favourites outscore captions before the reward."""
        names = (FAVOURITES, BEFORE)
        return measured_preference(WIN_RATE, {**self.at, **at}, self.preferred, examples, names)


def caption_cross(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageTextScorer,
    data: CaptionedRows,
    engine: Engine,
    *,
    scorers: list[ImageTextScorer],
    captioner: Captioner,
    encoder: RegionEncoder | None = None,
    images: Images = TEST_IMAGES,
    seeds: Positive = 3,
    seed: int = 0,
    nouns: NounSource = TAGGED_CAPTIONS,
    metrics: Sequence[str] = CAPTION_METRICS,
) -> Outcome:
    """Return each scorer's scores of the model's favourites and of captions before the reward.

    Raises ValueError if the model is the only scorer, and TooFewRows for fewer than two images.

    Args:
        scorers: models that score the captions; the model under test is always included.
        captioner: settings of the captioner and its training, or the folder of a trained captioner
            (`weights`).
        encoder: region encoder whose vectors the captioner reads; None: the region vectors of the
            data.
        images: the `split` whose images are read, and how many of the `first` ones (null: all).
        seeds: number of trainings on the model's score, 1 or more, with seeds from `seed` on.
        seed: first seed of the trainings.
        nouns: spaCy `pipeline` (null: tags of the data), nouns to `leave_out`, `split` of training
            captions.
        metrics: caption metrics: bleu_1 to bleu_4, meteor, rouge_l, cider, spice (left out without
            its jars).
    """
    named = {engine.name_of(scorer): scorer for scorer in [model, *scorers]}
    model_name = engine.name_of(model)
    if len(named) < 2:
        raise ValueError(f"scorers {list(named)}: a scorer must differ from the model")
    words, (names, notes) = find_nouns(data, engine, nouns), available_metrics(metrics)
    plan = CaptionPlan(captioner, encoder, images, seeds, seed)
    subjects, _ = collect(model, data, engine, plan)
    scored = _score_all(named, model_name, data, subjects, engine, images)
    judged = judge_generated(subjects)
    statistics, floors = (
        _judge(sets, words, names, engine) for sets in (judged, with_other_references(judged))
    )
    examples, texts = subjects.examples, subjects.generated
    parts = [
        *(_part(entry, examples, texts) for entry in scored),
        _training(model, scored, data, subjects, engine, images),
        collapse_part(subjects),
        outcome_of(
            caption_scores(statistics, {}, examples, floors=floors, texts=texts), notes=notes
        ),
    ]
    for budget, captions in subjects.by_budget.items():
        after, at = subjects._replace(favourites=captions), {"budget": budget}
        by_scorer = _score_all(named, model_name, data, after, engine, images)
        parts.append(outcome_of([entry.measure(examples, at) for entry in by_scorer]))
    return join_outcomes(parts, {})


def _score_all(
    named: Mapping[str, ImageTextScorer],
    model: str,
    data: Data,
    subjects: Subjects,
    engine: Engine,
    images: Images,
) -> list[Scored]:
    return [
        Scored(name, score_kind(one), name == model, _scores(one, data, subjects, engine, images))
        for name, one in named.items()
    ]


def _scores(
    scorer: ImageTextScorer, data: Data, subjects: Subjects, engine: Engine, images: Images
) -> dict[str, Floats]:
    """Return a scorer's scores; it reads the same images with its own kind of regions."""
    rows = images.of(engine.read_by(scorer, data))
    kinds = {kind: subjects.kinds[kind] for kind in (FAVOURITES, BEFORE)}
    return match_scores(PairScorer(scorer, rows, engine), kinds, range(len(rows)))


def _part(one: Scored, examples: Examples, texts: Mapping[str, Answers]) -> Outcome:
    """Return the scores of one scorer."""
    means: ByKind = {kind: {MATCH: with_ones(values)} for kind, values in one.published.items()}
    preferred = one.preferred
    measured = [
        one.measure(examples, {}),
        tied_share(WIN_RATE, one.at, preferred, examples),
        *caption_scores(means, {MATCH: published_kind(one.kind)}, examples, one.at, texts=texts),
    ]
    counts = count_ties(preferred) if one.is_own else {}
    notes = [f"{WIN_RATE} {one.name}: the model's own score, which rewarded its favourites"]
    notes = notes if one.is_own else []
    return outcome_of(measured, counts, notes + tie_notes(WIN_RATE, one.at, preferred))


def _training(
    model: ImageTextScorer,
    scored: Sequence[Scored],
    data: Data,
    subjects: Subjects,
    engine: Engine,
    images: Images,
) -> Outcome:
    """Return whether the model's own score still rose over the last epochs of its training."""
    (of_model,) = [entry for entry in scored if entry.is_own]
    scorer = PairScorer(model, images.of(engine.read_by(model, data)), engine)
    late, notes = convergence(scorer, subjects, of_model.published[FAVOURITES])
    return outcome_of([late], notes=notes)


def _judge(
    sets: Sets, nouns: Nouns, metrics: Sequence[str], engine: Engine
) -> dict[str, dict[str, Floats]]:
    """Return the statistics of metrics, and of precision and recall of nouns."""
    statistics = metrics_of(sets, metrics, engine)
    return {
        kind: statistics[kind] | stack_seeds([noun_fractions(texts, nouns) for texts in judged])
        for kind, judged in sets.items()
    }
