"""Which of an image's regions are right for each target, and what is known without a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Regions
from vlbench.metrics.boxes import areas, centres_inside, iou, shares_inside
from vlbench.metrics.ranking import choose_any

# A region is right from this overlap with a gold box on.
OVERLAP = 0.5

# What choices earn that look at no word, and what the best possible does; then the shares of
# columns whose centre is inside, and that are gold: what even attention would earn.
STATS = (
    "random_region",
    "largest_region",
    "most_confident_region",
    "upper_bound",
    "random_pointing",
    "even_attention",
)

# Boxes that a model gives back may have been scaled and scaled back, in pixels.
SAME_BOX = 1e-2


class Geometry(NamedTuple):
    """How P regions and R columns of attention lie to K targets of one image."""

    right: Tensor  # bool [K, P]
    inside: Tensor  # bool [K, R]
    gold: Tensor  # float64 [K, R]
    shares: Tensor | None  # float64 [R, P]; None where the columns are the regions
    stats: Tensor  # float64 [K, STATS]
    confident: bool

    @property
    def own(self) -> bool:
        """Whether the columns are the model's own patches."""
        return self.shares is not None


def geometry(
    regions: Regions, columns: Tensor, targets: Sequence[Sequence[Sequence[float]]]
) -> Geometry:
    """Return how regions and columns [R, 4] lie to targets, each one or several gold boxes.

    Columns that are all among the regions are what the model chooses from; others are patches, and
    a region scores the attention to patches, each times the share of it that the region covers.
    Gold is then the largest share of a patch in one gold box, and otherwise whether it is right.
    """
    columns, given = columns.detach().cpu(), regions.boxes.cpu()
    scores = None if regions.scores is None else regions.scores.cpu()
    boxes = torch.tensor([box for target in targets for box in target]).view(-1, 4)
    owner = torch.tensor([k for k, target in enumerate(targets) for _ in target])
    member = owner[None] == torch.arange(len(targets))[:, None]
    among = _right(given, boxes, member)
    inside = (member[:, None] & centres_inside(columns, boxes)).any(-1)
    shares = column_shares(columns, given)
    if shares is None:
        right = _right(columns, boxes, member)
        gold = right.double()
    else:
        right = among
        gold = (member[:, None] * shares_inside(columns, boxes)).amax(-1)
    stats = [
        right.double().mean(1),
        _earned(areas(given), among),
        _earned(scores, among),
        right.any(1).double(),
        inside.double().mean(1),
        gold.mean(1),
    ]
    return Geometry(right, inside, gold, shares, torch.stack(stats, 1), scores is not None)


def column_shares(columns: Tensor, regions: Tensor) -> Tensor | None:
    """Return how much of each of [R, 4] columns lies in each of [P, 4] regions, float64 [R, P].

    None where the columns are regions themselves, and have nothing to be shared out.
    """
    gaps = (columns[:, None].float() - regions[None].float()).abs().amax(-1)
    are_regions = bool((gaps.amin(1) <= SAME_BOX).all())
    return None if are_regions else shares_inside(columns, regions)


def _right(regions: Tensor, boxes: Tensor, member: Tensor) -> Tensor:
    """Return which regions overlap any gold box of each target enough, bool [K, P]."""
    return (member[:, None] & (iou(regions, boxes) >= OVERLAP)).any(-1)


def _earned(scores: Tensor | None, right: Tensor) -> Tensor:
    """Return what the highest-scored region earns for each target; 0 where there are no scores."""
    if scores is None:
        return torch.zeros(len(right), dtype=torch.float64)
    return choose_any(scores.expand(len(right), -1), right).credit
