"""Image patch retrieval within a category, by a word in context. arXiv:2107.12021, section 4.4.

Up to 100 images of two objects are drawn per category, each with an object of the category. The
word of each object, in its caption, ranks the regions of this category in all drawn images. IR@k
(`retrieval`) is how often its own region is among the first k: the mean over categories, then over
draws. `n` is the number of categories; the standard error treats draws and categories as random. A
category with fewer images uses all of them (the counts have the number of such categories), and its
chance level is k / images; a category with a single image is left out. For a static encoder the
word is the name of the fine-grained class in all captions, so that it can exceed chance only by
distinguishing classes of a category (man, woman). Departure, with `within: word`: images are drawn
per class of a category, so that a static encoder is exactly at chance, and scores above chance come
from the caption. Tied regions share their ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import Detector, RegionEncoder, TokenEncoder
from vlbench.data.coco_files import Named
from vlbench.engine import Engine
from vlbench.engine.training import ONE_TRAINING
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.items import DIGITS, Examples, Items, Options, outcome_of
from vlbench.metrics.ranking import credit_among, without_answer
from vlbench.metrics.scores import measure_items
from vlbench.probes.vsep.alignment import (
    TRAIN_AND_TEST,
    Objects,
    SplitRows,
    Splits,
    gather,
    train_on,
)
from vlbench.probes.vsep.named_objects import ALL_BOXES, Boxes, ObjectEncoders
from vlbench.probes.vsep.network import PAPER_TRAINING, TrainedVsep, VsepTraining, directions
from vlbench.results import Outcome, Positive
from vlbench.system.digests import digest

# The number of objects of a test image.
OBJECTS = 2


class Pools(NamedTuple):
    """Up to `size` images are drawn per category, `draws` times; the first `k` regions count.

    If `within` is "word", they are drawn per word of a category.
    """

    k: Sequence[Positive] = (1, 5)
    size: Positive = 100
    draws: Positive = 5
    within: Literal["category", "word"] = "category"


PAPER_POOLS = Pools()


def patch_retrieval(
    words: TokenEncoder,
    data: SplitRows,
    engine: Engine,
    *,
    regions: Detector | RegionEncoder | None = None,
    boxes: Boxes = ALL_BOXES,
    pools: Pools = PAPER_POOLS,
    splits: Splits = TRAIN_AND_TEST,
    training: VsepTraining = PAPER_TRAINING,
) -> Outcome:
    """Return how often a word's own region is in the first k of its category, or of its word.

    The network is the same as in `object_label_alignment`. Raises TooFewRows if no category has two
    images of two objects.

    Args:
        words: word encoder that computes word vectors.
        regions: detector or region encoder that computes region vectors; None: the data have region
            vectors.
        boxes: `source` of the boxes for a region encoder, gold or detected; least `confidence` of
            detected regions.
        pools: ranks `k`, 1 or more; up to `size` images of each category, or of each word (`within:
            word`), in `draws` draws.
        splits: `train` splits, whose images of one object train, and `test` splits, whose other
            images test.
        training: `epochs`, `batch_size`; `seeds` networks, from `seed` on, alternate over the
            draws; `seed` also draws the pools.
    """
    if min(pools.size - 1, pools.draws, *pools.k) < 1 or training.seeds > pools.draws:
        rule = "a pool of 2 or more, draws and k of 1 or more, and a draw for each seed"
        raise ValueError(f"{pools}, {counted(training.seeds, 'seed')}: wanted {rule}")
    encoders = ObjectEncoders(words, regions, boxes)
    sets = gather(encoders, data, engine, (OBJECTS,), splits)
    objects = sets.tests[OBJECTS]
    drawn = draw(objects, pools, training.seed)
    nets = [train_on(sets.train, engine, training, shuffled=shuffled) for shuffled in (False, True)]
    credit, floor = (retrieve(net, objects, drawn, pools.k) for net in nets)
    sizes = [len(rows) for rows in drawn[0]]
    named = list(chain(*objects.named))
    ids = [_pool(named[int(rows[0])], pools.within) for rows in drawn[0]]
    digests = [digest(name).removeprefix("sha256:")[:DIGITS] for name in ids]
    examples = Examples(ids, digests)
    metrics = [
        Items(
            "recall",
            without_answer(torch.from_numpy(hits)),
            examples,
            Options((), (), np.minimum(k, sizes) / sizes),
            {"shuffled_words": float(blind.mean())},
            {"k": k},
            random="trials",
        )
        for k, hits, blind in zip(pools.k, credit, floor, strict=True)
    ]
    counts = {
        "categories": len(sizes),
        "categories_short": sum(size < pools.size for size in sizes),
        "smallest_pool": min(sizes),
    }
    notes = [encoders.note, sets.names.note, ONE_TRAINING * (training.seeds == 1)]
    return outcome_of([*map(measure_items, metrics)], sets.counts | counts, notes)


# A promised name; a task that gives it must say `under_test: regions`.
patch_retrieval_regions = patch_retrieval


def draw(objects: Objects, pools: Pools, seed: int) -> list[list[Tensor]]:
    """Return the objects of each draw and pool, numbered over all images."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(chain(*objects.named)):
        places.setdefault(_pool(name, pools.within), []).append(place)
    rows = [np.array(numbers) for _, numbers in sorted(places.items()) if len(numbers) > 1]
    if not rows:
        raise TooFewRows(f"no {pools.within} has two images of {OBJECTS} objects to tell apart")
    rng = np.random.default_rng(seed)
    return [
        [torch.from_numpy(rng.permutation(row)[: pools.size]) for row in rows]
        for _ in range(pools.draws)
    ]


def _pool(name: Named, within: str) -> str:
    """Return the name that the objects of a pool share."""
    return name.category if within == "category" else f"{name.category}/{name.word}"


def retrieve(
    nets: Sequence[TrainedVsep],
    objects: Objects,
    drawn: Sequence[Sequence[Tensor]],
    k: Sequence[int],
) -> NDArray[np.float64]:
    """Return IR@k per draw and category, [k, draws, categories]; networks alternate over draws."""
    recalls = np.empty((len(k), len(drawn), len(drawn[0])))
    for i, net in enumerate(nets):
        recalls[:, i :: len(nets)] = _retrieve_by(net, objects, drawn[i :: len(nets)], k)
    return recalls


def _retrieve_by(
    net: TrainedVsep, objects: Objects, drawn: Sequence[Sequence[Tensor]], k: Sequence[int]
) -> NDArray[np.float64]:
    # Each drawn object is mapped once.
    used, places = torch.unique(torch.cat([*chain(*drawn)]), return_inverse=True)
    regions = net.directions(objects.regions.flatten(0, 1)[used])
    words = directions(objects.words.flatten(0, 1)[used].double(), layer_normed=net.layer_norm)
    firsts = torch.tensor(k).unsqueeze(1)
    recalls = np.empty((len(k), len(drawn), len(drawn[0])))
    blocks = iter(torch.split(places, [len(rows) for rows in chain(*drawn)]))
    for i, j in np.ndindex(recalls.shape[1:]):
        rows = next(blocks)
        cosines, diagonal = words[rows] @ regions[rows].T, torch.arange(len(rows))
        recalls[:, i, j] = credit_among(cosines, diagonal, firsts).mean(1).numpy()
    return recalls
