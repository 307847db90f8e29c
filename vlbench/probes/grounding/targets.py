"""Which of an image's regions are right for each target, and the baselines that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Regions
from vlbench.metrics.boxes import areas, centres_inside, covered_fractions, iou
from vlbench.metrics.ranking import choose_any

# A region is right from this intersection over union with a gold box on.
OVERLAP = 0.5

# The accuracy of choices that look at no word, and of the best possible one; then the fractions of
# columns whose centre is inside, and that are gold: the scores of even attention.
STATS = (
    "random_region",
    "largest_region",
    "most_confident_region",
    "upper_bound",
    "random_pointing",
    "even_attention",
)

# Boxes that a model returns may have been scaled and scaled back; in pixels.
SAME_BOX = 1e-2


class Geometry(NamedTuple):
    """Overlaps of P regions and R columns of attention with K targets of one image."""

    right: Tensor  # bool [K, P]
    inside: Tensor  # bool [K, R]
    gold: Tensor  # float64 [K, R]
    coverage: Tensor | None  # float64 [R, P]; None where the columns are the regions
    stats: Tensor  # float64 [K, STATS]
    has_scores: bool

    @property
    def own_patches(self) -> bool:
        """Whether the columns are the model's own patches."""
        return self.coverage is not None


def geometry(
    regions: Regions, columns: Tensor, targets: Sequence[Sequence[Sequence[float]]]
) -> Geometry:
    """Return the overlaps of regions and columns [R, 4] with targets, each one or more gold boxes.

    Where all columns are among the regions, the model chooses among the columns. Otherwise the
    columns are patches, and the score of a region is the attention to patches, each times the
    fraction of it that the region covers. `gold` is then the largest fraction of a patch that one
    gold box covers, and otherwise whether the region is right.
    """
    columns, given = columns.detach().cpu(), regions.boxes.cpu()
    scores = None if regions.scores is None else regions.scores.cpu()
    boxes = torch.tensor([box for target in targets for box in target]).view(-1, 4)
    owner = torch.tensor([k for k, target in enumerate(targets) for _ in target])
    member = owner[None] == torch.arange(len(targets))[:, None]
    among = _right(given, boxes, member)
    inside = (member[:, None] & centres_inside(columns, boxes)).any(-1)
    coverage = column_coverage(columns, given)
    if coverage is None:
        right = _right(columns, boxes, member)
        gold = right.double()
    else:
        right = among
        gold = (member[:, None] * covered_fractions(columns, boxes)).amax(-1)
    stats = [
        right.double().mean(1),
        _earned(areas(given), among),
        _earned(scores, among),
        right.any(1).double(),
        inside.double().mean(1),
        gold.mean(1),
    ]
    return Geometry(right, inside, gold, coverage, torch.stack(stats, 1), scores is not None)


def column_coverage(columns: Tensor, regions: Tensor) -> Tensor | None:
    """Return how much of each of [R, 4] columns each of [P, 4] regions covers, float64 [R, P].

    It is None where all columns are regions themselves.
    """
    gaps = (columns[:, None].float() - regions[None].float()).abs().amax(-1)
    are_regions = bool((gaps.amin(1) <= SAME_BOX).all())
    return None if are_regions else covered_fractions(columns, regions)


def _right(regions: Tensor, boxes: Tensor, member: Tensor) -> Tensor:
    """Return which regions overlap any gold box of each target by OVERLAP, bool [K, P]."""
    return (member[:, None] & (iou(regions, boxes) >= OVERLAP)).any(-1)


def _earned(scores: Tensor | None, right: Tensor) -> Tensor:
    """Return the credit of the highest-scored region for each target; 0 where none has a score."""
    if scores is None:
        return torch.zeros(len(right), dtype=torch.float64)
    return choose_any(scores.expand(len(right), -1), right).credit
