"""Measures of attention: from the queried words of a caption, by every head, to regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from vlbench.capabilities import ROUNDING, ROUNDING_OF_SUM, JointAttention, Regions
from vlbench.data.records import Data, Split
from vlbench.data.words import last_token, word_spans
from vlbench.errors import DataError, TooFewRows, counted
from vlbench.metrics.boxes import areas, centres_inside, covered_fractions, iou
from vlbench.metrics.ranking import choose_any

# Least intersection over union with a gold box of a right region, and of a thing's region.
OVERLAP = 0.5

# The accuracy of choices that ignore the word, and of the best possible choice; then the fractions
# of columns whose centre is inside a target, and of gold: the scores of uniform attention.
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

# Measures that judge a query, and other measures.
JUDGED = ("accuracy", "pointing_accuracy", "attention_on_gold")
MEASURES = (*JUDGED, "attention", "ties")
# Numbers per query: the measures, and the place of the chosen region, -1 if tied.
READ = (*MEASURES, "chosen")


class Query(NamedTuple):
    """The word at characters start..stop of a caption should attend to target number `target`.

    Each group of queries has separate scores.
    """

    group: int
    start: int
    stop: int
    target: int


# The queries of one image: `texts`, `queries` (one list per text) and `targets` (lists of xyxy
# boxes), as plain values; with `things`, all gold boxes, heads choose only among regions of these
# boxes.
ImageQueries = Mapping[str, Any]


class WordTarget(NamedTuple):
    """A word of a caption, by number, and the numbers of the gold boxes it should attend to."""

    group: int
    word: int
    boxes: tuple[int, ...]


# The data of a probe with a parameter `split`.
SplitRows = Annotated[Data, "split"]


def first_images(split: Split, images: int | None) -> Split:
    """Return the first images of a split, or all for None. Raises TooFewRows for fewer than two."""
    rows = split.select(range(len(split) if images is None else min(len(split), images)))
    if len(rows) < 2:
        raise TooFewRows(f"{counted(len(rows), 'image')}; two halves need two")
    return rows


def image_queries(
    row: Split, i: int, words: Sequence[Sequence[WordTarget]], *, among_things: bool = False
) -> dict[str, Any]:
    """Return the queries of image i, given the words of each of its captions."""
    targets = list(dict.fromkeys(one.boxes for caption in words for one in caption))
    number = {boxes: k for k, boxes in enumerate(targets)}
    gold = row["boxes"][i].tolist()
    texts = list(row["captions"][i])
    spans = [word_spans(text, split) for text, split in zip(texts, row["words"][i], strict=True)]
    return {
        "texts": texts,
        "targets": [[gold[box] for box in boxes] for boxes in targets],
        "queries": [
            [Query(word.group, *spans[j][word.word], number[word.boxes]) for word in caption]
            for j, caption in enumerate(words)
        ],
        **({"things": gold} if among_things else {}),
    }


class Geometry(NamedTuple):
    """Overlaps of P regions and R columns of attention with K targets of one image.

    `regions` and `columns` mask the regions and columns that a head chooses among.
    """

    regions: Tensor  # bool [P]
    columns: Tensor  # bool [R]
    right: Tensor  # bool [K, P]
    inside: Tensor  # bool [K, R]
    gold: Tensor  # float64 [K, R]
    coverage: Tensor | None  # float64 [R, P]; None if the columns are the regions
    stats: Tensor  # float64 [K, STATS]
    has_scores: bool

    @property
    def own_patches(self) -> bool:
        """Whether the columns are the model's patches."""
        return self.coverage is not None


def geometry(
    regions: Regions,
    columns: Tensor,
    targets: Sequence[Sequence[Sequence[float]]],
    things: Sequence[Sequence[float]] | None = None,
) -> Geometry:
    """Return the overlaps of regions and columns [R, 4] with targets, each one or more gold boxes.

    Given the gold boxes of all `things`, a head chooses among the regions of things (see
    `of_things`). If all columns are regions, the model chooses among the columns, and `gold` is
    whether the region is right. Otherwise the columns are patches: the score of a region is the sum
    of the attention to each patch times the fraction of the patch that the region covers, and
    `gold` is the largest fraction of a patch that a gold box covers.
    """
    columns, proposed = columns.detach().cpu(), regions.boxes.cpu()
    scores = None if regions.scores is None else regions.scores.cpu()
    boxes = torch.tensor([box for target in targets for box in target]).view(-1, 4)
    owner = torch.tensor([k for k, target in enumerate(targets) for _ in target])
    member = owner[None] == torch.arange(len(targets))[:, None]
    among = _right(proposed, boxes, member)
    inside = (member[:, None] & centres_inside(columns, boxes)).any(-1)
    coverage = column_coverage(columns, proposed)
    candidates = of_things(proposed, things)
    if coverage is None:
        right = _right(columns, boxes, member)
        gold = right.double()
        chosen = pointed = of_things(columns, things)
    else:
        right = among
        gold = (member[:, None] * covered_fractions(columns, boxes)).amax(-1)
        chosen, pointed = candidates, of_things(columns, None)
    stats = [
        right[:, chosen].double().mean(1),
        _credit(areas(proposed), among, candidates),
        _credit(scores, among, candidates),
        right.any(1).double(),
        inside[:, pointed].double().mean(1),
        gold[:, pointed].mean(1),
    ]
    has_scores = scores is not None
    return Geometry(
        chosen, pointed, right, inside, gold, coverage, torch.stack(stats, 1), has_scores
    )


def of_things(boxes: Tensor, things: Sequence[Sequence[float]] | None) -> Tensor:
    """Return which of [P, 4] boxes overlap the gold box of a thing by OVERLAP, bool [P].

    All are returned if `things` is None, and if none overlaps: then no region is right.
    """
    every = torch.ones(len(boxes), dtype=torch.bool)
    if things is None:
        return every
    overlaps = (iou(boxes, torch.tensor(things).view(-1, 4)) >= OVERLAP).any(1)
    return overlaps if overlaps.any() else every


def column_coverage(columns: Tensor, regions: Tensor) -> Tensor | None:
    """Return the fraction of each of [R, 4] columns that each region [P, 4] covers, float64 [R, P].

    It is None if all columns are regions.
    """
    gaps = (columns[:, None].float() - regions[None].float()).abs().amax(-1)
    are_regions = bool((gaps.amin(1) <= SAME_BOX).all())
    return None if are_regions else covered_fractions(columns, regions)


def _right(regions: Tensor, boxes: Tensor, member: Tensor) -> Tensor:
    """Return which regions overlap any gold box of each target by OVERLAP, bool [K, P]."""
    return (member[:, None] & (iou(regions, boxes) >= OVERLAP)).any(-1)


def _credit(scores: Tensor | None, right: Tensor, candidates: Tensor) -> Tensor:
    """Return the credit of the highest-scored region for each target; 0 if none has a score."""
    if scores is None:
        return torch.zeros(len(right), dtype=torch.float64)
    return choose_any(scores.expand(len(right), -1), right, candidates=candidates).credit


class QueryAttention(NamedTuple):
    """Attention of Q queries of one caption: weights [Q, L, H, R], and scores of P regions.

    `right` [Q, P] and `inside` [Q, R] are bool, `gold` [Q, R] is the fraction of a column that is
    inside the target. A head chooses among `regions` [Q, P] and `columns` [Q, R].
    """

    weights: Tensor
    scores: Tensor
    right: Tensor
    inside: Tensor
    gold: Tensor
    regions: Tensor
    columns: Tensor


def query_attention(
    attention: JointAttention, place: Geometry, queries: Sequence[Query]
) -> tuple[QueryAttention, list[int]]:
    """Return the attention of queries whose word has a token, and the numbers of these queries.

    The attention of a word is the attention of its last sub-word.
    """
    named = [Query(*query) for query in queries]
    tokens = [last_token(attention.spans, query.start, query.stop) for query in named]
    read = [k for k, token in enumerate(tokens) if token is not None]
    rows = torch.tensor([t for t in tokens if t is not None], dtype=torch.int64)
    weights = attention.weights[:, :, rows.to(attention.weights.device)].permute(2, 0, 1, 3)
    targets = [named[k].target for k in read]
    scores = weights if place.coverage is None else weights @ place.coverage.to(weights)
    parts = [part[targets] for part in (place.right, place.inside, place.gold)]
    parts += [part.expand(len(read), -1) for part in (place.regions, place.columns)]
    return QueryAttention(weights, scores, *(part.to(weights.device) for part in parts)), read


def measure(parts: Sequence[QueryAttention]) -> Tensor:
    """Return the measures of each head, float64 [Q, layers, heads, READ], on the CPU."""
    # Padding is not a candidate.
    weights, scores, *others = (_join(of_part) for of_part in zip(*parts, strict=True))
    right, inside, gold, regions, columns = (part[:, None, None] for part in others)
    chosen = choose_any(scores, right, candidates=regions)
    total = weights.sum(-1)
    # A head without attention to the regions counts as attending to all regions equally.
    among = (weights * columns).sum(-1, keepdim=True)
    attended = torch.where(among == 0, 1.0, weights) * columns
    on_gold = (attended * gold.to(weights)).sum(-1) / attended.sum(-1)
    pointed = choose_any(weights, inside, candidates=columns).credit
    measures = (chosen.credit, pointed, on_gold, total, chosen.tied, chosen.chosen)
    return torch.stack([one.double() for one in measures], -1).cpu()


def _join(parts: Sequence[Tensor]) -> Tensor:
    """Return [Q_i, ..., R_i] as [sum of Q, ..., the largest R], padded with 0 or False."""
    width = max(part.shape[-1] for part in parts)
    return torch.cat([pad(part, (0, width - part.shape[-1])) for part in parts])


def require_attention(attention: JointAttention, text: str) -> None:
    """Raise DataError, naming the text, unless its attention has its shape and is a distribution.

    Weights must be 0 or more, and the weights of a row must sum to at most 1, up to
    ROUNDING_OF_SUM.
    """
    shape = list(attention.weights.shape)
    sizes = [len(attention.spans), len(attention.boxes)]
    what = f"the attention for {text!r:.80}"
    if len(shape) != 4 or shape[2:] != sizes:
        raise DataError(f"{what} has shape {shape}; it must be [layers, heads, *{sizes}]")
    if not attention.weights.numel():
        return
    least, most = attention.weights.min().item(), attention.weights.sum(3).max().item()
    if not (least >= -ROUNDING and most <= 1 + ROUNDING_OF_SUM):
        raise DataError(
            f"{what} has a weight of {least:.3g} and a row that sums to {most:.3g}; weights must "
            f"be at least 0 and sum to at most 1, up to {ROUNDING_OF_SUM}"
        )
