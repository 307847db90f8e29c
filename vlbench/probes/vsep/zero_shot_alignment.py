"""Alignment of unseen objects: do they go to unknown words? arXiv:2107.12021, 4.3.

Networks learn without the held-out categories, and are asked about images with at least one of
them. `accuracy` is over all regions, `accuracy_unseen` and `accuracy_seen` over the held-out and
the other ones: n x accuracy = (n - 1) x accuracy_seen + accuracy_unseen where each image has one
unseen object; the counts say how many have more. `mutual_exclusivity` is the share of the wrongly
labelled regions whose object is unseen: high where unseen objects fall to known words, which is
the opposite of the bias that the statistic is named after. Its chance is their share of all
regions, as if errors were uniform.
A train image is left out, too, where its word names a held-out category in some other image, or is
one of `excluded_words`: those that the list of names has for a held-out category and another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Detector, RegionEncoder, TokenEncoder
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.errors import TooFewRows, unknown
from vlbench.metrics.statistics import Estimate, bootstrap_ratio, bootstrap_share
from vlbench.nets.vsep import Recipe, Trained
from vlbench.probes.vsep.alignment import (
    Objects,
    Sets,
    Setting,
    chosen_words,
    gather,
    learn,
    similarities,
)
from vlbench.probes.vsep.named_objects import Sides
from vlbench.results import Outcome, Score


def zero_shot_alignment(  # noqa: PLR0913 - the YAML fills all but three
    model: TokenEncoder,
    data: Data,
    engine: Engine,
    *,
    held_out: Sequence[str],
    excluded_words: Sequence[str] = (),
    regions: Detector | RegionEncoder | None = None,
    boxes: str = "gold",
    confidence: float = 0.0,
    objects: Sequence[int] = (2, 3, 4),
    train: Sequence[str] = ("train",),
    test: Sequence[str] = ("test",),
    epochs: int = 200,
    batch_size: int = 512,
    seed: int = 0,
) -> Outcome:
    """Return how often regions of held-out and of other categories fit their own word best.

    The other arguments are those of `object_label_alignment`. Raises UnknownNameError for a
    held-out category that the data lack, TooFewRows where nothing is left to learn or to ask.
    """
    sides, recipe = Sides(model, regions, boxes, confidence), Recipe(epochs, batch_size, seed)
    setting = Setting(objects, train, test, recipe)
    return _align(sides, data, engine, setting, (held_out, excluded_words))


def zero_shot_alignment_regions(  # noqa: PLR0913 - the YAML fills all but three
    model: Detector | RegionEncoder,
    data: Data,
    engine: Engine,
    *,
    held_out: Sequence[str],
    words: TokenEncoder,
    excluded_words: Sequence[str] = (),
    boxes: str = "gold",
    confidence: float = 0.0,
    objects: Sequence[int] = (2, 3, 4),
    train: Sequence[str] = ("train",),
    test: Sequence[str] = ("test",),
    epochs: int = 200,
    batch_size: int = 512,
    seed: int = 0,
) -> Outcome:
    """Return the same with the region encoder under test, and a word encoder as companion."""
    sides, recipe = Sides(words, model, boxes, confidence), Recipe(epochs, batch_size, seed)
    setting = Setting(objects, train, test, recipe)
    return _align(sides, data, engine, setting, (held_out, excluded_words))


class Judged(NamedTuple):
    """What regions earn, float64 [I, n], which of them are unseen, bool [I, n], and the floor."""

    credit: Tensor
    unseen: Tensor
    floor: Tensor
    ties: int


def _align(
    sides: Sides,
    data: Data,
    engine: Engine,
    setting: Setting,
    hidden: tuple[Sequence[str], Sequence[str]],
) -> Outcome:
    for name in hidden[0]:
        if name not in data.classes:
            raise unknown("category", name, data.classes)
    sets = gather(sides, data, engine, setting)
    known = _without(sets, *hidden)
    nets = [learn(known, engine, setting.recipe, shuffled=blind) for blind in (False, True)]
    judged = {
        n: _judge(nets, _with(found, hidden[0]), hidden[0]) for n, found in sets.tests.items()
    }
    scores: list[Score] = []
    for found in judged.values():
        scores += _shares(found, setting.recipe.seed)
        scores += _exclusivity([found], found.unseen.shape[1], setting.recipe.seed)
    scores += _exclusivity(list(judged.values()), "all", setting.recipe.seed)
    images = {f"images_{n}": len(found.unseen) for n, found in judged.items()}
    counts = {
        "images_1": len(known.named),
        "clusters": images[f"images_{setting.objects[0]}"],
        "unseen_not_one": sum(int((j.unseen.sum(1) != 1).sum()) for j in judged.values()),
        "ties": sum(j.ties for j in judged.values()),
    }
    return Outcome(scores=scores, counts=sets.counts | images | counts, notes=[sides.note])


def _without(sets: Sets, held_out: Sequence[str], excluded: Sequence[str]) -> Objects:
    """Return the train images whose object is not held out, by its category or by its word."""
    images = [*sets.train.named, *(row for s in sets.tests.values() for row in s.named)]
    named = {name for row in images for name in row}
    words = {name.word.lower() for name in named if name.category in held_out}
    words |= {word.lower() for word in excluded}
    kept = [
        i
        for i, (name,) in enumerate(sets.train.named)
        if name.category not in held_out and name.word.lower() not in words
    ]
    if not kept:
        raise TooFewRows("no train image is left without the held-out categories")
    return sets.train.select(kept)


def _with(objects: Objects, held_out: Sequence[str]) -> Objects:
    """Return the images with a held-out object."""
    unseen = _unseen(objects, held_out).any(1).nonzero().flatten().tolist()
    if not unseen:
        n = objects.regions.shape[1]
        raise TooFewRows(f"no test image of {n} objects has one of a held-out category")
    return objects.select(unseen)


def _unseen(objects: Objects, held_out: Sequence[str]) -> Tensor:
    return torch.tensor([[name.category in held_out for name in row] for row in objects.named])


def _judge(nets: Sequence[Trained], objects: Objects, held_out: Sequence[str]) -> Judged:
    choices = [chosen_words(similarities(n, objects.regions, objects.words)) for n in nets]
    ties = int(choices[0].tied.sum())
    return Judged(choices[0].credit, _unseen(objects, held_out), choices[1].credit, ties)


def _shares(judged: Judged, seed: int) -> list[Score]:
    """Return the accuracy over all regions, over unseen ones, and over seen ones if there are."""
    n, unseen = judged.unseen.shape[1], judged.unseen
    masks = {"accuracy": unseen | ~unseen, "accuracy_unseen": unseen, "accuracy_seen": ~unseen}
    return [
        Score(
            metric=metric,
            at={"objects": n},
            n=int(mask.sum()),
            chance=1 / n,
            floors={"shuffled_words": float(judged.floor[mask].mean())},
            **_share_of(judged.credit, mask, seed)._asdict(),
        )
        for metric, mask in masks.items()
        if mask.any()
    ]


def _share_of(credit: Tensor, mask: Tensor, seed: int) -> Estimate:
    images = mask.any(1)
    hits = (credit * mask).sum(1)[images]
    return bootstrap_share(hits.numpy(), mask.sum(1)[images].numpy(), seed=seed)


def _exclusivity(judged: Sequence[Judged], at: int | str, seed: int) -> list[Score]:
    """Return the share of wrongly labelled regions whose object is unseen; nothing if none is."""
    wrong = torch.cat([(1 - j.credit).sum(1) for j in judged])
    if not wrong.any():
        return []
    unseen = torch.cat([((1 - j.credit) * j.unseen).sum(1) for j in judged])
    # A guess is wrong with 1 - 1 / n, whatever the object.
    guessed = [(1 - 1 / j.unseen.shape[1], j.unseen) for j in judged]
    chance = sum(p * float(u.sum()) for p, u in guessed) / sum(p * u.numel() for p, u in guessed)
    return [
        Score(
            metric="mutual_exclusivity",
            at={"objects": at},
            n=len(wrong),
            chance=chance,
            higher_is_better=False,
            **bootstrap_ratio(unseen.numpy(), wrong.numpy(), seed=seed)._asdict(),
        )
    ]
