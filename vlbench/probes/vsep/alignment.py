"""Alignment of regions with words: sets of objects, networks, choices and scores.

arXiv:2107.12021, sections 3 and 4, shared by the three probes of this family. Networks are trained
on images of one object, and tested on images of two or more: is a region most similar to its own
word among the words of its image? Regions choose words, not the reverse, and several regions may
choose the same word: only under this reading do the paper's tables 2, 4 and 5 agree with each
other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import count_truncated
from vlbench.data.coco_files import Named
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.engine.training import each_seed
from vlbench.errors import CannotDo, TooFewRows, counted
from vlbench.metrics.items import Examples, Items, Options, trials
from vlbench.metrics.ranking import TIED, Choice, choose, without_answer
from vlbench.probes.vsep.named_objects import (
    NamedObjects,
    NameVectors,
    ObjectEncoders,
    find_objects,
    name_vectors,
)
from vlbench.probes.vsep.network import RegionWords, TrainedVsep, VsepTraining, directions, train

# Images compared at a time.
BLOCK = 1 << 12


class Splits(NamedTuple):
    """The splits whose images of one object train, and the splits whose other images test."""

    train: Sequence[str] = ("train",)
    test: Sequence[str] = ("test",)


TRAIN_AND_TEST = Splits()
# The data of a probe with a parameter `splits`.
SplitRows = Annotated[Data, "splits.train", "splits.test"]


Forms = Sequence[Sequence[Tensor | None]]


class Objects(NamedTuple):
    """Objects of I images with n each: regions [I, n, D], words [I, n, W], names [I][n].

    `forms` [I][n] are the vectors of the word forms in the caption, or None. `images` [I] are the
    id and the digest of each image.
    """

    regions: Tensor
    words: Tensor
    named: list[list[Named]]
    forms: Forms = ()
    images: Sequence[tuple[str, str]] = ()

    def select(self, rows: Sequence[int]) -> Objects:
        """Return the objects of some of the images."""
        return Objects(
            self.regions[rows],
            self.words[rows],
            [self.named[i] for i in rows],
            [self.forms[i] for i in rows] if self.forms else (),
            [self.images[i] for i in rows] if self.images else (),
        )

    def with_words(self, vectors: Forms) -> Objects:
        """Return the images whose objects all have a vector in `vectors` [I][n], with these."""
        rows = complete(vectors)
        if not rows:
            n = self.regions.shape[1]
            raise TooFewRows(f"no image has {n} objects whose words all have a vector")
        words = [torch.stack([v for v in vectors[i] if v is not None]) for i in rows]
        return self.select(rows)._replace(words=torch.stack(words))


def complete(vectors: Forms) -> list[int]:
    """Return the images whose objects all have a vector."""
    return [i for i, row in enumerate(vectors) if all(v is not None for v in row)]


class ObjectSets(NamedTuple):
    """Train images of one object, test images by their number of objects, and counts.

    `names` are the vectors of the names of fine-grained classes.
    """

    train: Objects
    tests: dict[int, Objects]
    counts: dict[str, int]
    names: NameVectors


def gather(
    encoders: ObjectEncoders, data: Data, engine: Engine, objects: Sequence[int], splits: Splits
) -> ObjectSets:
    """Return the train images of one object, and the test images of each number of `objects`.

    An image with a word that has no vector is left out and counted. Truncated captions are also
    counted: a word after the cut has no vector. Raises TooFewRows if a set has no image, and
    CannotDo if the model has no vector for any word.
    """
    if min(objects, default=0) < 2:
        raise ValueError(f"objects {list(objects)}: must be numbers of 2 or more")
    names = dict.fromkeys([*splits.train, *splits.test])
    classes = sorted({n.word for name in names for row in data.splits[name]["named"] for n in row})
    vectors = name_vectors(encoders.words, classes, engine)
    by_split = {
        # Ids are unique only within a split.
        name: [
            image._replace(image=(f"{name}/{image.image[0]}", image.image[1]))
            for image in find_objects(encoders, data.splits[name], engine, vectors)
        ]
        for name in names
    }
    pooled = [[image for name in part for image in by_split[name]] for part in splits]
    groups = [(1, pooled[0]), *((n, pooled[1]) for n in objects)]
    chosen = [[image for image in images if len(image.named) == n] for n, images in groups]
    _require_vectors(chosen)
    kept = [[i for i in images if all(w is not None for w in i.words)] for images in chosen]
    sets = {n: _stack(n, images) for (n, _), images in zip(groups, kept, strict=True)}
    counts = {f"images_{n}": len(one.named) for n, one in sets.items()}
    counts["clusters"] = counts[f"images_{objects[0]}"]
    counts["oov_words"] = sum(w is None for images in chosen for i in images for w in i.words)
    counts["oov_images"] = sum(map(len, chosen)) - sum(map(len, kept))
    captions = [text for name in names for text in data.splits[name]["caption"]]
    counts |= count_truncated(encoders.words, captions)
    return ObjectSets(sets.pop(1), sets, counts, vectors)


def train_on(
    objects: Objects,
    engine: Engine,
    training: VsepTraining,
    *,
    shuffled: bool = False,
    layer_normed: bool = True,
) -> list[TrainedVsep]:
    """Return the network of each seed, trained on images of one object.

    If `shuffled`, words are first shuffled by the same seed.
    """
    regions, words = objects.regions[:, 0], objects.words[:, 0]
    nets = []
    for plan in each_seed(training):
        rng = torch.Generator().manual_seed(plan.seed)
        targets = words[torch.randperm(len(words), generator=rng)] if shuffled else words
        nets.append(train(engine, RegionWords(regions, targets), plan, layer_normed=layer_normed))
    return nets


def similarities(nets: Sequence[TrainedVsep], objects: Objects) -> Tensor:
    """Return cosines of each image's regions and words under each network, float64 [T, I, n, n]."""
    return torch.stack([_cosines(net, objects.regions, objects.words) for net in nets])


@torch.no_grad()
def _cosines(net: TrainedVsep, regions: Tensor, words: Tensor) -> Tensor:
    parts = []
    for x, y in zip(torch.split(regions, BLOCK), torch.split(words, BLOCK), strict=True):
        mapped = net.directions(x.flatten(0, 1)).view(*x.shape[:2], -1)
        parts.append(mapped @ directions(y.double(), layer_normed=net.layer_norm).mT)
    return torch.cat(parts)


def chosen_words(cosines: Tensor) -> Choice:
    """Return the credit [..., n] of choosing the most similar word for each region."""
    n = cosines.shape[-1]
    rows = cosines.flatten(0, -2)
    choice = choose(rows, torch.arange(n).repeat(len(rows) // n), scale=torch.ones(len(rows)))
    return Choice(*(column.view(cosines.shape[:-1]) for column in choice))


def assigned_words(cosines: Tensor) -> Choice:
    """Return the credit [..., n] of the one-to-one assignment with the largest sum of cosines.

    If assignments are tied, a region earns the fraction of them that assign it its own word.
    """
    n = cosines.shape[-1]
    orders = torch.tensor(list(permutations(range(n))))
    sums = cosines[..., torch.arange(n), orders].sum(-1)
    best = (sums >= sums.amax(-1, keepdim=True) - TIED * n).double()
    right = (orders == torch.arange(n)).double()
    return without_answer(best @ right / best.sum(-1, keepdim=True))


def region_items(
    metric: str,
    objects: Objects,
    choice: Choice,
    floors: Mapping[str, Choice] = {},
    *,
    has_words: bool = True,
) -> Items:
    """Return the choices [T, I, n] of words for regions, by T networks for I images.

    `chosen` is the number of a word in its image. If not `has_words`, no word is chosen.
    """
    n = choice.credit.shape[-1]
    listed = zip(objects.images, objects.named, strict=True)
    regions = [(*image, name) for image, names in listed for name in names]
    words = sorted({name.word for *_, name in regions})
    numbers = torch.tensor([words.index(name.word) for *_, name in regions])
    flat = _flat(choice)
    of_image = torch.arange(len(numbers)) // n * n
    chosen = numbers[of_image + flat.chosen.clamp(min=0)].masked_fill(flat.chosen < 0, -1)
    return Items(
        metric,
        flat._replace(chosen=chosen),
        Examples(
            [f"{id_}/{name.category}" for id_, _, name in regions],
            [digest for _, digest, _ in regions],
            [id_ for id_, *_ in regions],
        ),
        Options(words if has_words else (), numbers, 1 / n),
        {name: _flat(floor) for name, floor in floors.items()},
        {"objects": n},
        random="seeds",
    )


def _flat(choice: Choice) -> Choice:
    return Choice(*(trials(part.flatten(1)) for part in choice))


def _require_vectors(chosen: Sequence[Sequence[NamedObjects]]) -> None:
    words = [word for images in chosen for image in images for word in image.words]
    if words and all(word is None for word in words):
        raise CannotDo(f"the model has no vector for any of {len(words)} words that name objects")


def _stack(n: int, images: Sequence[NamedObjects]) -> Objects:
    if not images:
        role = "train" if n == 1 else "test"
        raise TooFewRows(
            f"no {role} image has {counted(n, 'object')} that a region shows and the caption names"
        )
    words = [torch.stack([w for w in image.words if w is not None]) for image in images]
    regions = torch.stack([image.regions for image in images])
    named, forms = [image.named for image in images], [image.forms for image in images]
    return Objects(regions, torch.stack(words), named, forms, [image.image for image in images])
