"""What the probes of visual semantic embeddings share: sets of objects, networks, choices, scores.

arXiv:2107.12021, sections 3 and 4. Networks learn on images of one object, and are asked about
images of two and more: which of the image's own words does a region fit best? A region chooses
among the words, not a word among the regions, and several may choose the same (only so do the
paper's tables 2, 4 and 5 agree with each other).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.data.annotations import Named
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.ranking import TIED, Choice, choose
from vlbench.metrics.statistics import bootstrap_share
from vlbench.nets.vsep import Recipe, Trained, directions, train
from vlbench.probes.generalization.zero_shot import truncated
from vlbench.probes.vsep.named_objects import NamedObjects, Sides, find_objects
from vlbench.results import Score

# Images compared at a time.
BLOCK = 1 << 12


class Setting(NamedTuple):
    """Which images are asked, and how networks are trained."""

    objects: Sequence[int]
    train: Sequence[str]
    test: Sequence[str]
    recipe: Recipe


class Objects(NamedTuple):
    """Objects of I images with n each: regions [I, n, D], words [I, n, W], names [I][n]."""

    regions: Tensor
    words: Tensor
    named: list[list[Named]]

    def select(self, rows: Sequence[int]) -> Objects:
        """Return these of the images."""
        return Objects(self.regions[rows], self.words[rows], [self.named[i] for i in rows])


class Sets(NamedTuple):
    """Images of one object to learn from, and images by their number of objects to ask about."""

    train: Objects
    tests: dict[int, Objects]
    counts: dict[str, int]


def gather(sides: Sides, data: Data, engine: Engine, setting: Setting) -> Sets:
    """Return the sets of images: one object of the train splits, several of the test splits.

    An image with a word that has no vector is left out and counted. Counted are also the captions
    that the model cuts: a word behind the cut has no vector either. Raises TooFewRows where a set
    has no image, CannotDo where the model has no vector for any word.
    """
    if min(setting.objects, default=0) < 2:
        raise ValueError(f"objects {list(setting.objects)}: wanted numbers of 2 or more")
    names = dict.fromkeys([*setting.train, *setting.test])
    found = {name: find_objects(sides, data.splits[name], engine) for name in names}
    pooled = [[image for name in part for image in found[name]] for part in setting[1:3]]
    wanted = [(1, pooled[0]), *((n, pooled[1]) for n in setting.objects)]
    chosen = [[image for image in images if len(image.named) == n] for n, images in wanted]
    _refuse_mute(chosen)
    kept = [[i for i in images if all(w is not None for w in i.words)] for images in chosen]
    sets = {n: _stack(n, images) for (n, _), images in zip(wanted, kept, strict=True)}
    counts = {f"images_{n}": len(objects.named) for n, objects in sets.items()}
    counts["clusters"] = counts[f"images_{setting.objects[0]}"]
    counts["oov_words"] = sum(w is None for images in chosen for i in images for w in i.words)
    counts["oov_images"] = sum(map(len, chosen)) - sum(map(len, kept))
    counts |= truncated(sides.words, [text for n in names for text in data.splits[n]["caption"]])
    return Sets(sets.pop(1), sets, counts)


def learn(objects: Objects, engine: Engine, recipe: Recipe, *, shuffled: bool = False) -> Trained:
    """Return a network trained on images of one object, each with its own or another's word."""
    regions, words = objects.regions[:, 0], objects.words[:, 0]
    if shuffled:
        rng = torch.Generator().manual_seed(recipe.seed)
        words = words[torch.randperm(len(words), generator=rng)]
    return train(engine, regions, words, recipe)


@torch.no_grad()
def similarities(net: Trained, regions: Tensor, words: Tensor) -> Tensor:
    """Return the cosine of each region of an image with each of its words, float64 [I, n, n]."""
    parts = []
    for x, y in zip(torch.split(regions, BLOCK), torch.split(words, BLOCK), strict=True):
        mapped = net.directions(x.flatten(0, 1)).view(*x.shape[:2], -1)
        parts.append(mapped @ directions(y.double(), layer_normed=net.layer_norm).mT)
    return torch.cat(parts)


def chosen_words(cosines: Tensor) -> Choice:
    """Return the credit [I, n] of each region's choice of the word that it fits best."""
    images, n, _ = cosines.shape
    right = torch.arange(n).repeat(images)
    rows = cosines.flatten(0, 1)
    choice = choose(rows, right, scale=torch.ones(len(rows)))
    return Choice(choice.credit.view(images, n), choice.tied.view(images, n))


def assigned_words(cosines: Tensor) -> Tensor:
    """Return the credit [I, n] where each word goes to one region and the sum of cosines is most.

    Of assignments whose sums are tied, each is as likely: a region earns the share of those that
    give it its own word.
    """
    n = cosines.shape[1]
    orders = torch.tensor(list(permutations(range(n))))
    sums = cosines[:, torch.arange(n), orders].sum(2)
    best = (sums >= sums.amax(1, keepdim=True) - TIED * n).double()
    right = (orders == torch.arange(n)).double()
    return best @ right / best.sum(1, keepdim=True)


def share(metric: str, credit: Tensor, at: int, floors: dict[str, float], seed: int) -> Score:
    """Return the score of credits [I, n] of regions that share images, at so many objects."""
    n = credit.shape[1]
    return Score(
        metric=metric,
        at={"objects": at},
        n=credit.numel(),
        chance=1 / n,
        floors=floors,
        **bootstrap_share(
            credit.sum(1).numpy(), torch.full((len(credit),), n).numpy(), seed=seed
        )._asdict(),
    )


def _refuse_mute(chosen: Sequence[Sequence[NamedObjects]]) -> None:
    words = [word for images in chosen for image in images for word in image.words]
    if words and all(word is None for word in words):
        raise CannotDo(f"the model has no vector for any of {len(words)} words that name objects")


def _stack(n: int, images: Sequence[NamedObjects]) -> Objects:
    if not images:
        known = "1 object" if n == 1 else f"{n} objects"
        role = "train" if n == 1 else "test"
        raise TooFewRows(f"no {role} image has {known} that a region shows and the caption names")
    words = [torch.stack([w for w in image.words if w is not None]) for image in images]
    regions = torch.stack([image.regions for image in images])
    return Objects(regions, torch.stack(words), [image.named for image in images])
