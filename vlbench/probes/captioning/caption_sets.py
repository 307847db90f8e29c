"""The captions that probes change: from a captioner, references or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch

from vlbench.asking.pair_scores import PairScorer, as_published
from vlbench.capabilities import ImageTextScorer, RegionEncoder
from vlbench.data.caption_results import result_captions
from vlbench.data.records import Column, Data, Split
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, TooFewRows, counted
from vlbench.metrics.intervals import Floats
from vlbench.metrics.items import Answers, Examples, answers_in_words
from vlbench.probes.captioning.captioner import (
    ASKED,
    Captioner,
    Favourites,
    favourites,
    first_captions,
    with_regions,
)
from vlbench.probes.captioning.kinds import BEFORE, FAVOURITES, REFERENCE
from vlbench.results import Positive

# A captioner trained on the data, as in the paper.
PAPER_CAPTIONER = Captioner()


class Images(NamedTuple):
    """The images of a test split that are read: the `first` images, or all for None."""

    split: str = "test"
    first: Positive | None = None

    def of(self, data: Data) -> Split:
        """Return the rows. Raises TooFewRows for fewer than two."""
        rows = data.splits[self.split]
        rows = rows.select(range(len(rows) if self.first is None else min(len(rows), self.first)))
        if len(rows) < 2:
            raise TooFewRows(f"{counted(len(rows), 'image')}; the another-image control needs two")
        return rows

    def alone(self, data: Data) -> Data:
        """Return the data with only these rows in the split."""
        return replace(data, splits={**data.splits, self.split: self.of(data)})


TEST_IMAGES = Images()
# The data of a probe with a parameter `images`, whose captioner may be trained, and of a probe with
# `nouns`.
CaptionedRows = Annotated[Data, "train", "images.split", ...]
NounRows = Annotated[Data, "nouns.split", "images.split", ...]

# The captions that a probe changes: a captioner's, or human references, whose nouns are right.
Originals = Literal["captioner", "references"]


def find_captions(
    data: Data,
    engine: Engine,
    images: Images,
    originals: Originals,
    file: Path | None,
    captioner: Captioner,
    encoder: RegionEncoder | None,
) -> list[str]:
    """Return the caption of each image, with single spaces between words.

    It is the first reference, or comes from a file in COCO's result format, or from the captioner
    before any reward; the captioner reads regions through the encoder. Raises ValueError for both a
    file and references, and the errors of `references_of`, `result_captions`, `with_regions` and
    `first_captions`.
    """
    if originals == "references":
        if file is not None:
            raise ValueError(
                f"the original captions are references, but {file.name} has different references; "
                "give only one of the two"
            )
        return [" ".join(texts[0].split()) for texts in references_of(images.of(data))]
    if file is not None:
        return result_captions(file, images.of(data))
    chosen = images.alone(data)
    if captioner.weights:
        train = data.splits["train"]
        sample = train.select(range(min(ASKED, len(train))))
        # No other regions are read, so that no other regions are encoded.
        chosen = replace(chosen, splits={"train": sample, images.split: images.of(data)})
    seen = with_regions(chosen, encoder, captioner, engine)
    captions = first_captions(seen, engine, captioner, images.split)
    return [" ".join(text.split()) for text in captions]


# Captions [seeds][N] of the images by kind; one seed for kinds that no seed changes.
Kinds = Mapping[str, Sequence[Sequence[str]]]


class Subjects(NamedTuple):
    """Test images: their references, and their captions before and after the reward.

    `favourites` has the captions of each seed after the largest budget, `before_last` the captions
    before its last epochs, and `by_budget` the captions after each of several budgets; budget 0 is
    before the reward.
    """

    rows: Split
    references: list[list[str]]
    before: list[str]
    favourites: list[list[str]]
    before_last: list[list[str]]
    by_budget: Mapping[int, list[list[str]]] = {}

    @property
    def kinds(self) -> Kinds:
        """The captions of each kind; only the first reference."""
        first = [texts[0] for texts in self.references]
        return {FAVOURITES: self.favourites, BEFORE: [self.before], REFERENCE: [first]}

    @property
    def generated(self) -> dict[str, Answers]:
        """The captioner's captions of each kind, with all references of an image as one text."""
        right = [" / ".join(texts) for texts in self.references]
        kinds = {FAVOURITES: self.favourites, BEFORE: [self.before]}
        return {kind: answers_in_words(captions, right) for kind, captions in kinds.items()}

    @property
    def pictures(self) -> Column:
        """The pictures of the images."""
        return self.rows["picture"]

    @property
    def examples(self) -> Examples:
        """Examples that identify the images."""
        return self.pictures.examples()


class CaptionPlan(NamedTuple):
    """A captioner, its region encoder, the images, and `seeds` seeds, from `seed` on."""

    captioner: Captioner
    encoder: RegionEncoder | None
    images: Images
    seeds: int
    seed: int


def collect(
    model: ImageTextScorer, data: Data, engine: Engine, plan: CaptionPlan
) -> tuple[Subjects, list[Favourites]]:
    """Return the captions of the test images, and how the favourites of each seed were found.

    Raises ValueError if there is no seed, CannotDo if the captioner would read images through the
    model, TooFewRows for fewer than two images, and the errors of `references_of`.
    """
    if plan.seeds < 1:
        raise ValueError(f"{plan.seeds} seeds; favourites need one training or more")
    if plan.encoder and engine.name_of(model) == engine.name_of(plan.encoder):
        raise CannotDo(
            "the captioner would see images through the model whose preferences it learns"
        )
    rows, captioner, encoder = plan.images.of(data), plan.captioner, plan.encoder
    chosen = replace(data, splits={**data.splits, "test": rows})
    chosen = with_regions(chosen, encoder, captioner, engine)
    references = references_of(rows)
    before = first_captions(chosen, engine, captioner)
    trained = [
        favourites(model, chosen, engine, captioner, seed=seed)
        for seed in range(plan.seed, plan.seed + plan.seeds)
    ]
    budgets = captioner.self_critical.budgets
    by_budget = {b: [run.captions[b] for run in trained] if b else [before] for b in budgets}
    all_budgets = by_budget if len(budgets) > 1 else {}
    before_last = [training.before_last for training in trained]
    subjects = Subjects(rows, references, before, by_budget[max(budgets)], before_last, all_budgets)
    return subjects, trained


def references_of(rows: Split) -> list[list[str]]:
    """Return the references of each image. Raises DataError for an image without references."""
    references = [list(texts) for texts in rows["captions"]]
    for i, texts in enumerate(references):
        if not texts:
            image = rows["picture"].ids[i]
            raise DataError(f"image {image} has no reference; leave it out of the test split")
    return references


def published_scores(scores: Mapping[str, Floats], kind: str) -> dict[str, Floats]:
    """Return matching scores of a `kind` as printed in papers, by kind of captions."""
    return {
        captions: as_published(torch.from_numpy(values), kind).numpy()
        for captions, values in scores.items()
    }


def match_scores(scorer: PairScorer, kinds: Kinds, rows: Sequence[int]) -> dict[str, Floats]:
    """Return the score of each caption for the image of its place in `rows`, [seeds, N] by kind.

    These scores are for comparisons; `published_scores` are for reports. All are computed at once,
    so that a caption of several kinds is scored once.
    """
    texts = [text for seeds in kinds.values() for captions in seeds for text in captions]
    count = len(texts) // len(rows)
    table = scorer(list(rows) * count, texts).double().numpy().reshape(count, len(rows))
    ends = np.cumsum([len(seeds) for seeds in kinds.values()])
    return dict(zip(kinds, np.split(table, ends[:-1]), strict=True))
