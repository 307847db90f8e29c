"""Items of regions: which word of its image each region chose, in the cluster of its image."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from torch import Tensor

from vlbench.metrics.items import Answers, Examples, item_table
from vlbench.probes.vsep.alignment import Objects
from vlbench.results import At


def region_items(
    objects: Objects,
    metric: str,
    at: At,
    credit: Tensor,
    *,
    chosen: Tensor | None = None,
    kept: Tensor | None = None,
) -> Any:
    """Return the items of a score: all regions, or those `kept`, bool [I, n].

    `credit` is [I, n], and so is the number in its image of the word `chosen`, -1 for none.
    """
    mask = (torch.ones_like(credit, dtype=torch.bool) if kept is None else kept).flatten()
    n, named = credit.shape[1], list(chain(*objects.named))
    places = mask.nonzero().flatten().tolist()
    images = [objects.images[place // n] for place in places]
    examples = Examples(
        [f"{id_}/{named[i].category}" for (id_, _), i in zip(images, places, strict=True)],
        [digest for _, digest in images],
        [id_ for id_, _ in images],
    )
    answers = None
    if chosen is not None:
        words = sorted({name.word for name in named})
        own = torch.tensor([words.index(name.word) for name in named])
        first = torch.arange(len(named)) // n * n
        said = own[first + chosen.flatten().clamp(min=0)]
        answers = Answers(words, said.masked_fill(chosen.flatten() < 0, -1)[mask], own[mask])
    return item_table(examples, metric, at, credit.flatten()[mask], answers)
