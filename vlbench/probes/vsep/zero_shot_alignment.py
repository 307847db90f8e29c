"""Alignment of unseen objects with unseen words. arXiv:2107.12021, section 4.3.

Networks are trained without the held-out categories, and tested on images with at least one
held-out object. `accuracy` is over all regions, `accuracy_unseen` over regions of held-out
categories, and `accuracy_seen` over the other regions: n x accuracy = (n - 1) x accuracy_seen +
accuracy_unseen if each image has one unseen object; the counts have the number of images with more.
Departure: with the region encoder under test, each image has exactly one unseen object, so that
there is a seen word to confuse it with. `mutual_exclusivity` is the fraction of wrongly labelled
regions whose object is unseen. It is high if unseen objects get seen words, which is the opposite
of the bias that the statistic is named after. Its chance level is the fraction of unseen regions
among all regions, as if errors were uniform. A train image is also left out if its word names a
held-out category in another image, or is in `excluded_words`: words that the list of names has for
both a held-out category and another category.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Detector, RegionEncoder, TokenEncoder
from vlbench.engine import Engine
from vlbench.engine.training import ONE_TRAINING
from vlbench.errors import TooFewRows, require_known
from vlbench.metrics.items import Measured, outcome_of
from vlbench.metrics.ranking import Choice
from vlbench.probes.vsep.alignment import (
    TRAIN_AND_TEST,
    Objects,
    ObjectSets,
    SplitRows,
    Splits,
    chosen_words,
    fraction_of_regions,
    gather,
    mean_credit,
    measured_regions,
    of_networks,
    similarities,
    train_on,
)
from vlbench.probes.vsep.named_objects import ALL_BOXES, Boxes, ObjectEncoders
from vlbench.probes.vsep.network import PAPER_TRAINING, TrainedVsep, VsepTraining
from vlbench.results import Outcome, Positive, Score


def zero_shot_alignment(  # noqa: PLR0913 - the YAML fills all but three
    model: TokenEncoder,
    data: SplitRows,
    engine: Engine,
    *,
    held_out: Sequence[str],
    excluded_words: Sequence[str] = (),
    regions: Detector | RegionEncoder | None = None,
    boxes: Boxes = ALL_BOXES,
    objects: Sequence[Positive] = (2, 3, 4),
    splits: Splits = TRAIN_AND_TEST,
    training: VsepTraining = PAPER_TRAINING,
) -> Outcome:
    """Return how often a region's own word is most similar, for held-out and other categories.

    Raises UnknownNameError for an unknown held-out category, and TooFewRows if no image is left to
    train or test on.

    Args:
        held_out: categories that no network is trained on; test images have at least one object of
            these categories.
        excluded_words: words whose train images are also left out, because they name both a
            held-out category and another category.
        regions: detector or region encoder that computes region vectors; None: the data have region
            vectors.
        boxes: `source` of the boxes for a region encoder, gold or detected; least `confidence` of
            detected regions.
        objects: numbers of objects in a test image, each 2 or more, each with its own score.
        splits: `train` splits, whose images of one object train, and `test` splits, whose other
            images test.
        training: `epochs`, `batch_size`, and `seeds` trainings, from `seed` on; scores are means
            over them.
    """
    require_known("category", held_out, data.classes)
    encoders = ObjectEncoders(model, regions, boxes)
    sets = gather(encoders, data, engine, objects, splits)
    return _align(sets, HeldOut(held_out, excluded_words), engine, training, encoders.note)


def zero_shot_alignment_regions(  # noqa: PLR0913 - the YAML fills all but three
    model: Detector | RegionEncoder,
    data: SplitRows,
    engine: Engine,
    *,
    held_out: Sequence[str],
    words: TokenEncoder,
    excluded_words: Sequence[str] = (),
    boxes: Boxes = ALL_BOXES,
    objects: Sequence[Positive] = (2, 3, 4),
    splits: Splits = TRAIN_AND_TEST,
    training: VsepTraining = PAPER_TRAINING,
) -> Outcome:
    """Return the same scores for a region encoder under test, with a word encoder as companion.

    Args:
        held_out: categories that no network is trained on; test images have exactly one object of
            these categories.
        words: word encoder that computes word vectors.
        excluded_words: words whose train images are also left out, because they name both a
            held-out category and another category.
        boxes: `source` of the boxes for a region encoder, gold or detected; least `confidence` of
            detected regions.
        objects: numbers of objects in a test image, each 2 or more, each with its own score.
        splits: `train` splits, whose images of one object train, and `test` splits, whose other
            images test.
        training: `epochs`, `batch_size`, and `seeds` trainings, from `seed` on; scores are means
            over them.
    """
    require_known("category", held_out, data.classes)
    encoders = ObjectEncoders(words, model, boxes)
    sets = gather(encoders, data, engine, objects, splits)
    held = HeldOut(held_out, excluded_words, most=1)
    return _align(sets, held, engine, training, encoders.note)


class HeldOut(NamedTuple):
    """Categories and further words that no network is trained on.

    A test image has 1 to `most` objects of the categories.
    """

    categories: Sequence[str]
    words: Sequence[str]
    most: float = math.inf


class RegionResults(NamedTuple):
    """The choices of regions, [T, I, n], which regions are unseen, bool [I, n], and the floor."""

    objects: Objects
    choice: Choice
    unseen: Tensor
    floor: Tensor

    @property
    def credit(self) -> Tensor:
        """The credit of each region under each network, float64 [T, I, n]."""
        return self.choice.credit

    def parts(self) -> dict[str, Tensor]:
        """Return the regions, bool [I, n], of each accuracy that has any regions."""
        every = torch.ones_like(self.unseen)
        masks = {"accuracy": every, "accuracy_unseen": self.unseen, "accuracy_seen": ~self.unseen}
        return {metric: mask for metric, mask in masks.items() if mask.any()}

    def measured(self, score: Score, mask: Tensor) -> Measured:
        """Return a score with its regions `mask`, bool [I, n], as items."""
        chosen = self.choice.chosen
        return measured_regions(score, self.objects, self.credit, chosen=chosen, kept=mask)


def _align(
    sets: ObjectSets, held_out: HeldOut, engine: Engine, training: VsepTraining, note: str
) -> Outcome:
    train = _without(sets, held_out)
    nets = [train_on(train, engine, training, shuffled=shuffled) for shuffled in (False, True)]
    results = {
        n: _results(nets, _with(objects, held_out), held_out.categories)
        for n, objects in sets.tests.items()
    }
    measured: list[Measured] = []
    for n, found in results.items():
        measured += _accuracies(found)
        measured += _exclusivity([found], n)
    measured += _exclusivity(list(results.values()), "all")
    images = {f"images_{n}": len(found.unseen) for n, found in results.items()}
    counts = {
        "images_1": len(train.named),
        "clusters": next(iter(images.values())),
        "unseen_not_one": sum(int((r.unseen.sum(1) != 1).sum()) for r in results.values()),
        "ties": sum(int(r.choice.tied.sum()) for r in results.values()),
        "choices": sum(r.choice.tied.numel() for r in results.values()),
    }
    notes = [note, sets.names.note, ONE_TRAINING * (training.seeds == 1)]
    return outcome_of(measured, sets.counts | images | counts, notes)


def _without(sets: ObjectSets, held_out: HeldOut) -> Objects:
    """Return the train images whose object is not held out by category or by word."""
    images = [*sets.train.named, *(row for s in sets.tests.values() for row in s.named)]
    named = {name for row in images for name in row}
    words = {name.word.lower() for name in named if name.category in held_out.categories}
    words |= {word.lower() for word in held_out.words}
    kept = [
        i
        for i, (name,) in enumerate(sets.train.named)
        if name.category not in held_out.categories and name.word.lower() not in words
    ]
    if not kept:
        raise TooFewRows("no train image is left without the held-out categories")
    return sets.train.select(kept)


def _with(objects: Objects, held_out: HeldOut) -> Objects:
    """Return the images with at least one and at most `most` held-out objects."""
    unseen = _unseen(objects, held_out.categories).sum(1)
    kept = ((unseen > 0) & (unseen <= held_out.most)).nonzero().flatten().tolist()
    if not kept:
        n = objects.regions.shape[1]
        raise TooFewRows(f"no test image of {n} objects has one of a held-out category")
    return objects.select(kept)


def _unseen(objects: Objects, held_out: Sequence[str]) -> Tensor:
    return torch.tensor([[name.category in held_out for name in row] for row in objects.named])


def _results(
    nets: Sequence[Sequence[TrainedVsep]], objects: Objects, held_out: Sequence[str]
) -> RegionResults:
    choice, shuffled = (chosen_words(similarities(several, objects)) for several in nets)
    return RegionResults(objects, choice, _unseen(objects, held_out), shuffled.credit)


def _accuracies(results: RegionResults) -> list[Measured]:
    """Return the accuracy over all regions, unseen regions, and seen regions if there are any."""
    n, measured = results.unseen.shape[1], []
    for metric, mask in results.parts().items():
        score = Score(
            metric=metric,
            at={"objects": n},
            n=int(mask.sum()),
            chance=1 / n,
            floors={"shuffled_words": float(results.floor[:, mask].mean())},
            draws=of_networks(results.credit[:, mask]),
            **mean_credit(results.credit, mask)._asdict(),
        )
        measured.append(results.measured(score, mask))
    return measured


def _exclusivity(results: Sequence[RegionResults], objects: int | str) -> list[Measured]:
    """Return the fraction of wrongly labelled regions that are unseen.

    Labels of all networks are pooled; empty if a network makes no errors.
    """
    wrong = torch.cat([(1 - r.credit).sum(-1) for r in results], 1)
    if not wrong.sum(1).all():
        return []
    unseen = torch.cat([((1 - r.credit) * r.unseen).sum(-1) for r in results], 1)
    # A guess among n words is wrong with probability 1 - 1 / n, whatever the object.
    guessed = [(1 - 1 / r.unseen.shape[1], r.unseen) for r in results]
    chance = sum(p * float(u.sum()) for p, u in guessed) / sum(p * u.numel() for p, u in guessed)
    score = Score(
        metric="mutual_exclusivity",
        at={"objects": objects},
        n=wrong.shape[1],
        chance=chance,
        higher_is_better=False,
        **fraction_of_regions(unseen, wrong)._asdict(),
    )
    return [Measured(score)]
