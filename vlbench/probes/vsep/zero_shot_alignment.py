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
from vlbench.metrics.intervals import fraction_over_seeds
from vlbench.metrics.items import Items, Measured, outcome_of
from vlbench.metrics.scores import measure_items, subset
from vlbench.probes.vsep.alignment import (
    TRAIN_AND_TEST,
    Objects,
    ObjectSets,
    SplitRows,
    Splits,
    chosen_words,
    gather,
    region_items,
    similarities,
    train_on,
)
from vlbench.probes.vsep.named_objects import ALL_BOXES, Boxes, ObjectEncoders
from vlbench.probes.vsep.network import PAPER_TRAINING, VsepTraining
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
    return _align(sets, Unseen(held_out, excluded_words), engine, training, encoders.note)


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
    held = Unseen(held_out, excluded_words, most=1)
    return _align(sets, held, engine, training, encoders.note)


class Unseen(NamedTuple):
    """Categories and further words that no network is trained on.

    A test image has 1 to `most` objects of the categories.
    """

    categories: Sequence[str]
    words: Sequence[str]
    most: float = math.inf


class Errors(NamedTuple):
    """How wrong the labels of regions are, [T, I, n], and which regions are unseen, bool [I, n]."""

    wrong: Tensor
    unseen: Tensor


def _align(
    sets: ObjectSets, held_out: Unseen, engine: Engine, training: VsepTraining, note: str
) -> Outcome:
    train = _without(sets, held_out)
    nets, blind = (
        train_on(train, engine, training, shuffled=shuffled) for shuffled in (False, True)
    )
    tests = {n: _with(objects, held_out) for n, objects in sets.tests.items()}
    metrics: list[Items] = []
    errors: dict[int, Errors] = {}
    for n, objects in tests.items():
        choice, floor = (chosen_words(similarities(network, objects)) for network in (nets, blind))
        unseen = _unseen(objects, held_out.categories)
        whole = region_items("accuracy", objects, choice, {"shuffled_words": floor})
        metrics.append(whole)
        for metric, mask in (("accuracy_unseen", unseen), ("accuracy_seen", ~unseen)):
            if mask.any():
                places = mask.flatten().nonzero().flatten().tolist()
                metrics.append(subset(whole, places)._replace(metric=metric))
        errors[n] = Errors(1 - choice.credit, unseen)
    scores = [score for n, values in errors.items() for score in _exclusivity([values], n)]
    scores += _exclusivity(list(errors.values()), "all")
    images = {f"images_{n}": len(objects.named) for n, objects in tests.items()}
    ties = [part.choice.tied for part in metrics if part.metric == "accuracy"]
    counts = {
        "images_1": len(train.named),
        "clusters": next(iter(images.values())),
        "unseen_not_one": sum(int((error.unseen.sum(1) != 1).sum()) for error in errors.values()),
        "ties": sum(int(tie.sum()) for tie in ties),
        "choices": sum(tie.numel() for tie in ties),
    }
    notes = [note, sets.names.note, ONE_TRAINING * (training.seeds == 1)]
    # Not `Outcome.metrics`: the row's `n` is that of the primary, `accuracy_unseen`.
    measured = [*map(measure_items, metrics), *map(Measured, scores)]
    return outcome_of(measured, sets.counts | images | counts, notes)


def _without(sets: ObjectSets, held_out: Unseen) -> Objects:
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


def _with(objects: Objects, held_out: Unseen) -> Objects:
    """Return the images with at least one and at most `most` held-out objects."""
    unseen = _unseen(objects, held_out.categories).sum(1)
    kept = ((unseen > 0) & (unseen <= held_out.most)).nonzero().flatten().tolist()
    if not kept:
        n = objects.regions.shape[1]
        raise TooFewRows(f"no test image of {n} objects has one of a held-out category")
    return objects.select(kept)


def _unseen(objects: Objects, held_out: Sequence[str]) -> Tensor:
    return torch.tensor([[name.category in held_out for name in row] for row in objects.named])


def _exclusivity(errors: Sequence[Errors], objects: int | str) -> list[Score]:
    """Return the fraction of wrongly labelled regions that are unseen.

    Labels of all networks are pooled; empty if a network makes no errors.
    """
    wrong = torch.cat([error.wrong.sum(-1) for error in errors], 1)
    if not wrong.sum(1).all():
        return []
    unseen = torch.cat([(error.wrong * error.unseen).sum(-1) for error in errors], 1)
    # A guess among n words is wrong with probability 1 - 1 / n, whatever the object.
    guessed = [(1 - 1 / error.unseen.shape[1], error.unseen) for error in errors]
    chance = sum(p * float(u.sum()) for p, u in guessed) / sum(p * u.numel() for p, u in guessed)
    score = Score(
        metric="mutual_exclusivity",
        at={"objects": objects},
        n=wrong.shape[1],
        chance=chance,
        higher_is_better=False,
        **fraction_over_seeds(unseen.numpy(), wrong.numpy())._asdict(),
    )
    return [score]
