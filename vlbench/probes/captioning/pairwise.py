"""Contests of texts for an image: how often a text outscores the others, with controls.

A share (the fraction of contests won) has two floors: with the scores of the same texts for another
test image, and with the scores of a trigram model. `<share>_gain_from_image` is the share minus the
share with another image, paired by image: 0 for a model that reads only the text. `<share>_tied` is
how often the highest scores are tied, for example under a saturated head. Tied texts share the
credit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from vlbench.asking.pair_scores import PairScorer, as_published, other_images
from vlbench.capabilities import is_log_odds
from vlbench.metrics.gains import gain
from vlbench.metrics.intervals import clustered_ratio
from vlbench.metrics.items import Examples, Items, Measured, Options, outcome_of
from vlbench.metrics.language_model import TextScorer
from vlbench.metrics.ranking import Choice, choose_any, join_choices, without_answer
from vlbench.metrics.scores import measure_items
from vlbench.results import At, Outcome, Score

# Why the frequency of ties has no chance level.
TIED = "how often no choice is made; the more often, the less the fraction beside it means"

# The unit of matching scores, which differs between models.
UNIT = "score"


class Share(NamedTuple):
    """A share to measure: the fraction of contests in which the first text outscores the others.

    Texts are given by name. Several contests for an image are averaged.
    """

    metric: str
    at: At
    contests: Sequence[Sequence[str]]


class Contest(NamedTuple):
    """Scores [N, C] of C texts for each of N images, for another image, and from text only.

    `kind` is the kind of the model's scores, which are compared unchanged and reported
    `as_published`.
    """

    images: Examples
    names: Sequence[str]
    texts: Sequence[Sequence[str]]
    own: Tensor
    another_image: Tensor
    text_only: Tensor
    kind: str

    def place(self, name: str) -> int:
        """Return the column of a text."""
        return self.names.index(name)

    def published(self, name: str) -> Tensor:
        """Return the scores [N] of a text as printed in papers."""
        return as_published(self.own[:, self.place(name)], self.kind)

    def share(self, share: Share) -> list[Measured]:
        """Return a share with its floors, its gain from the image, and how often it is tied."""
        of_model = is_log_odds(self.kind)
        own, another, alone = (
            join_choices([self._choose(scores, texts, log_odds) for texts in share.contests])
            for scores, log_odds in (
                (self.own, of_model),
                (self.another_image, of_model),
                (self.text_only, True),
            )
        )
        chance = torch.cat([self._chance(contest) for contest in share.contests])
        right = np.repeat([self.place(first) for first, *_ in share.contests], len(self.texts))
        items = Items(
            share.metric,
            own,
            self._examples(share),
            Options(self.names, right, chance.numpy()),
            {"another_image": another, "text_only": alone},
            share.at,
        )
        tied = items._replace(
            metric=f"{share.metric}_tied",
            choice=without_answer(own.tied.double()),
            options=Options((), (), None),
            floors={},
            higher_is_better=False,
            no_chance=TIED,
        )
        name = f"{share.metric}_gain_from_image"
        return [
            measure_items(items),
            gain(name, own.credit, another.credit, items.examples, share.at),
            measure_items(tied),
        ]

    def mean(self, metric: str, at: At, values: Tensor, **more: Any) -> Measured:
        """Return the mean of [N] numbers over images."""
        numbers = values.double().numpy()
        estimate = clustered_ratio(numbers, np.ones(len(numbers)))._asdict()
        score = Score(metric=metric, at=at, n=len(numbers), **{"unit": UNIT} | more | estimate)
        return Measured(score, self.images, numbers)

    def match(self, at: At, name: str) -> Measured:
        """Return the mean matching score of a text; the floor is its score for another image."""
        another = as_published(self.another_image[:, self.place(name)], self.kind)
        floors = {"another_image": float(another.mean())}
        return self.mean("match_score", at, self.published(name), floors=floors)

    def table(self) -> Any:
        """Return all texts with their scores, a row per text."""
        columns = {
            "id": [image for image in self.images.ids for _ in self.names],
            "name": [*self.names] * len(self.texts),
            "text": [*chain(*self.texts)],
            "score": as_published(self.own, self.kind).flatten().tolist(),
        }
        return pa.table(columns)

    def _choose(self, scores: Tensor, contest: Sequence[str], log_odds: bool) -> Choice:
        """Return the texts chosen in a contest; equal texts share a candidate and its credit."""
        candidates, same = self._distinct(contest)
        places = torch.tensor(self._places(contest))
        values = scores[:, places]
        choice = choose_any(values, candidates & same, candidates=candidates, log_odds=log_odds)
        chosen = places[choice.chosen.clamp(min=0)].masked_fill(choice.chosen < 0, -1)
        return choice._replace(credit=choice.credit / same.sum(1), chosen=chosen)

    def _chance(self, contest: Sequence[str]) -> Tensor:
        """Return the credit of a choice at random, float64 [N]."""
        candidates, same = self._distinct(contest)
        return 1 / (candidates.sum(1) * same.sum(1)).double()

    def _distinct(self, contest: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return which texts differ from all before, and which equal the first, bool [N, C]."""
        listed = [[of_image[place] for place in self._places(contest)] for of_image in self.texts]
        first = torch.tensor([[texts.index(text) for text in texts] for texts in listed])
        return first == torch.arange(len(contest)), first == 0

    def _places(self, contest: Sequence[str]) -> list[int]:
        return [self.place(name) for name in contest]

    def _examples(self, share: Share) -> Examples:
        names = [contest[-1] for contest in share.contests]
        return self.images if len(names) == 1 else _repeat_images(self.images, names)


def compare_texts(
    model: PairScorer,
    alone: TextScorer,
    texts: Sequence[Mapping[str, str]],
    rows: Sequence[int],
    *,
    seed: int,
) -> Contest:
    """Return the scores of a model and of a trigram model for the texts of each of N images.

    The texts of all images have the same names. The images are `rows` of the model's images;
    another image is drawn from them by the seed. Raises TooFewRows for fewer than two.
    """
    others = [rows[i] for i in other_images(model.rows.select(rows), seed)]
    names = list(texts[0])
    listed = [[of_image[name] for name in names] for of_image in texts]
    every = [*chain(*listed)]
    pictured = [row for row in (*rows, *others) for _ in names]
    own, another = model(pictured, [*every, *every]).double().view(2, len(rows), len(names))
    by_text = alone(every).view(len(rows), len(names))
    images = model.rows["picture"].select(rows).examples()
    return Contest(images, names, listed, own, another, by_text, model.kind)


def report(
    measured: Sequence[Measured],
    share: str,
    counts: Mapping[str, int],
    artifacts: Mapping[str, Any] | None = None,
) -> Outcome:
    """Return the outcome of scores, with notes on the ties of a share and its range by template."""
    tied = [part.score for part in measured if part.score.metric == f"{share}_tied"]
    ties = sum(round(score.value * score.n) for score in tied)
    choices = sum(score.n for score in tied)
    note = (
        f"{share}: the best scores are tied in {ties} of {choices} choices (within 1e-6); tied "
        "choices share the credit"
    )
    notes = [note] if ties else []
    notes += _range_notes([part.score for part in measured if part.score.metric == share])
    return outcome_of(measured, {"ties": ties, "choices": choices, **counts}, notes, artifacts)


def _range_notes(scores: Sequence[Score]) -> list[str]:
    """Return a note if the intervals of the least and largest share by template are disjoint."""
    by_template = sorted((s for s in scores if set(s.at) == {"template"}), key=lambda s: s.value)
    if not by_template:
        return []
    (least, *_), (*_, most) = by_template, by_template
    assert least.ci95
    assert most.ci95
    ends = " to ".join(f"{score.value:.1%} ({score.at['template']})" for score in (least, most))
    note = (
        f"{least.metric} ranges over templates from {ends}: read each template's score, not their "
        "mean"
    )
    return [note] if least.ci95[1] < most.ci95[0] else []


def _repeat_images(images: Examples, names: Sequence[str]) -> Examples:
    """Return the examples of several contests per image, named, in the image's cluster."""
    ids = [f"{image}/{name}" for name in names for image in images.ids]
    return Examples(ids, list(images.digests) * len(names), list(images.ids) * len(names))
