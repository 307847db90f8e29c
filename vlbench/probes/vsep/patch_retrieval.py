"""Image patch retrieval within a category: whose word is it? arXiv:2107.12021, section 4.4.

Of the images of two objects, up to 100 with one of a category are drawn; the word of each, in its
caption, ranks all their regions of that category. IR@k
(`retrieval`) is how often its own is among the first k:
the mean over categories, then over draws. `n` is the number of categories, and the standard error
counts draws and categories as varying. A category with fewer images uses all that it has (the
counts say how many do), which is in the chance k / images; one with a single image has nothing to
rank, and is left out. A static encoder, whose words are the same in all captions, can only score
chance but for the different words of a category (man, woman).
Regions that fit alike share their ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import Detector, RegionEncoder, TokenEncoder
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.statistics import mean_of_trials
from vlbench.nets.vsep import Recipe, Trained, directions
from vlbench.probes.generalization.zero_shot import credit_among
from vlbench.probes.vsep.alignment import Objects, Setting, gather, learn
from vlbench.probes.vsep.named_objects import Sides
from vlbench.results import Outcome, Score

# Images have as many objects as this.
OBJECTS = 2


class Pools(NamedTuple):
    """How many images are drawn of a category, how often, and how many first regions count."""

    pool: int
    draws: int
    k: Sequence[int]
    seed: int


def patch_retrieval(  # noqa: PLR0913 - the YAML fills all but three
    model: TokenEncoder,
    data: Data,
    engine: Engine,
    *,
    regions: Detector | RegionEncoder | None = None,
    boxes: str = "gold",
    confidence: float = 0.0,
    k: Sequence[int] = (1, 5),
    pool: int = 100,
    draws: int = 5,
    train: Sequence[str] = ("train",),
    test: Sequence[str] = ("test",),
    epochs: int = 200,
    batch_size: int = 512,
    seed: int = 0,
) -> Outcome:
    """Return how often a word's own region is among the first k of its category's.

    The other arguments are those of `object_label_alignment`, whose network this uses. Raises
    TooFewRows where no category has two images of two objects.
    """
    sides, recipe = Sides(model, regions, boxes, confidence), Recipe(epochs, batch_size, seed)
    setting = Setting((OBJECTS,), train, test, recipe)
    return _retrieve(sides, data, engine, setting, Pools(pool, draws, k, seed))


def patch_retrieval_regions(  # noqa: PLR0913 - the YAML fills all but three
    model: Detector | RegionEncoder,
    data: Data,
    engine: Engine,
    *,
    words: TokenEncoder,
    boxes: str = "gold",
    confidence: float = 0.0,
    k: Sequence[int] = (1, 5),
    pool: int = 100,
    draws: int = 5,
    train: Sequence[str] = ("train",),
    test: Sequence[str] = ("test",),
    epochs: int = 200,
    batch_size: int = 512,
    seed: int = 0,
) -> Outcome:
    """Return the same with the region encoder under test, and a word encoder as companion."""
    sides, recipe = Sides(words, model, boxes, confidence), Recipe(epochs, batch_size, seed)
    setting = Setting((OBJECTS,), train, test, recipe)
    return _retrieve(sides, data, engine, setting, Pools(pool, draws, k, seed))


def _retrieve(sides: Sides, data: Data, engine: Engine, setting: Setting, pools: Pools) -> Outcome:
    if min(pools.pool - 1, pools.draws, *pools.k) < 1:
        raise ValueError(f"{pools}: wanted a pool of 2 or more, draws and k of 1 or more")
    sets = gather(sides, data, engine, setting)
    drawn = draw(sets.tests[OBJECTS], pools)
    nets = [learn(sets.train, engine, setting.recipe, shuffled=blind) for blind in (False, True)]
    credit, floor = (retrieve(net, sets.tests[OBJECTS], drawn, pools.k) for net in nets)
    sizes = [len(rows) for rows in drawn[0]]
    scores = [_score(k, credit[i], floor[i], sizes) for i, k in enumerate(pools.k)]
    counts = {
        "categories": len(sizes),
        "categories_short": sum(size < pools.pool for size in sizes),
        "smallest_pool": min(sizes),
    }
    return Outcome(scores=scores, counts=sets.counts | counts, notes=[sides.note])


def draw(objects: Objects, pools: Pools) -> list[list[Tensor]]:
    """Return for each draw and each category the objects drawn, numbered through all images."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(chain(*objects.named)):
        places.setdefault(name.category, []).append(place)
    rows = [np.array(found) for _, found in sorted(places.items()) if len(found) > 1]
    if not rows:
        raise TooFewRows(f"no category has two images of {OBJECTS} objects to tell apart")
    rng = np.random.default_rng(pools.seed)
    return [
        [torch.from_numpy(rng.permutation(found)[: pools.pool]) for found in rows]
        for _ in range(pools.draws)
    ]


def retrieve(
    net: Trained, objects: Objects, drawn: Sequence[Sequence[Tensor]], k: Sequence[int]
) -> NDArray[np.float64]:
    """Return IR@k of each draw and category, [k, draws, categories]."""
    # Only what is drawn is mapped, once.
    used, places = torch.unique(torch.cat([*chain(*drawn)]), return_inverse=True)
    regions = net.directions(objects.regions.flatten(0, 1)[used])
    words = directions(objects.words.flatten(0, 1)[used].double(), layer_normed=net.layer_norm)
    firsts = torch.tensor(k).unsqueeze(1)
    found = np.empty((len(k), len(drawn), len(drawn[0])))
    blocks = iter(torch.split(places, [len(rows) for rows in chain(*drawn)]))
    for i, j in np.ndindex(found.shape[1:]):
        rows = next(blocks)
        cosines, own = words[rows] @ regions[rows].T, torch.arange(len(rows))
        found[:, i, j] = credit_among(cosines, own, firsts).mean(1).numpy()
    return found


def _score(
    k: int, credit: NDArray[np.float64], floor: NDArray[np.float64], sizes: Sequence[int]
) -> Score:
    return Score(
        metric="retrieval",
        at={"k": k},
        n=credit.shape[1],
        chance=float(np.mean([min(k, size) / size for size in sizes])),
        floors={"shuffled_words": float(floor.mean())},
        draws=credit.mean(1).tolist(),
        **mean_of_trials(credit)._asdict(),
    )
