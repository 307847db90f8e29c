"""Attention of every head from queried words to regions, scored and summed inside the batch.

`entity_grounding` and `syntactic_grounding` share it: a query asks whether a word of a caption
looks at its target, any of some gold boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from vlbench.capabilities import Detector, JointAttender, JointAttention, Picture
from vlbench.data.records import Column
from vlbench.data.words import last_token
from vlbench.engine import Engine
from vlbench.errors import CannotDo
from vlbench.metrics.ranking import choose_any
from vlbench.probes.grounding.queries import ImageQueries, Query
from vlbench.probes.grounding.targets import STATS, Geometry, geometry

# What is summed over the queries of each head.
MEASURES = ("accuracy", "pointing_accuracy", "attention_on_gold", "attention", "ties")

# What is counted over the queries, beside the statistics of their targets.
COUNTED = ("n", "read", "without_regions")


class HeadSums(NamedTuple):
    """Sums over the queries of each image: float32 [images, groups, layers, heads, MEASURES].

    `stats` are float64 [images, groups, COUNTED + STATS]. `whole` says that the softmax runs over
    the whole input, `own_patches` that columns are the model's own patches, `has_scores` that all
    regions have scores.
    """

    heads: NDArray[np.float32]
    stats: NDArray[np.float64]
    whole: bool
    own_patches: bool
    has_scores: bool


class QueryAttention(NamedTuple):
    """Attention of Q queries of one caption: weights [Q, L, H, R], and scores of P regions.

    `right` [Q, P] and `inside` [Q, R] are bool, `gold` [Q, R] is the fraction of a column that is
    of the target.
    """

    weights: Tensor
    scores: Tensor
    right: Tensor
    inside: Tensor
    gold: Tensor


def head_sums(
    reader: AttentionReader, pictures: Column, queries: Column, engine: Engine
) -> HeadSums:
    """Return the sums over all queries of each image, one caption per row of a forward pass.

    A query is wrong where its image has no regions, or its word no token. Raises CannotDo where no
    image has regions, and ValueError for attention that does not fit its spans and boxes.
    """
    key = {"what": "attention of heads"} | vars(reader)
    rows = engine.map(reader.read, pictures, queries, key=key)
    with_regions = [row for row in rows if row["heads"] is not None]
    if not with_regions:
        raise CannotDo("no picture has regions among which the model could choose")
    heads = np.zeros((len(rows), *with_regions[0]["heads"].shape), np.float32)
    for i, row in enumerate(rows):
        if row["heads"] is not None:
            heads[i] = row["heads"].numpy()
    return HeadSums(
        heads=heads,
        stats=np.stack([row["stats"].numpy() for row in rows]),
        whole=all(row["whole"] for row in with_regions),
        own_patches=any(row["own_patches"] for row in with_regions),
        has_scores=all(row["has_scores"] for row in with_regions),
    )


@dataclass(frozen=True)
class AttentionReader:
    """Reads a model's attention, and returns its sums over the queries of an image.

    A detector proposes regions for pictures without any.
    """

    model: JointAttender
    groups: int
    detector: Detector | None = None

    def read(
        self, pictures: Sequence[Picture], queries: Sequence[ImageQueries]
    ) -> list[dict[str, Any]]:
        """Return the sums of each image; a batch has as many captions as there are images."""
        pictures = with_proposals(pictures, self.detector)
        cells = len(pictures) * self.groups
        stats = torch.zeros(cells, len(COUNTED) + len(STATS), dtype=torch.float64)
        sums: Tensor | None = None
        geometries: dict[int, Geometry] = {}
        whole: dict[int, bool] = {}
        for batch in self._batches(pictures, queries):
            parts, places = [], []
            for i, j, attention in self._attend(batch, pictures, queries):
                if i not in geometries:
                    regions = pictures[i].regions
                    assert regions
                    geometries[i] = geometry(regions, attention.boxes, queries[i]["targets"])
                whole[i] = attention.whole
                part, found = query_attention(attention, geometries[i], queries[i]["queries"][j])
                parts.append(part)
                places += [i * self.groups + query.group for query in found]
            cell = torch.tensor(places, dtype=torch.int64)
            measured = measure(parts)
            if sums is None:
                sums = torch.zeros(cells, *measured.shape[1:], dtype=torch.float64)
            sums.index_add_(0, cell, measured)
            stats[:, COUNTED.index("read")] += torch.bincount(cell, minlength=cells)
        self._count(stats, queries, geometries)
        return [
            self._row(i, stats, sums, geometries.get(i), whole.get(i)) for i in range(len(pictures))
        ]

    def _batches(
        self, pictures: Sequence[Picture], queries: Sequence[ImageQueries]
    ) -> Iterator[list[tuple[int, int]]]:
        """Yield the numbers of images and of their queried captions, a batch at a time."""
        has_regions = [bool(p.regions is not None and len(p.regions.boxes)) for p in pictures]
        pairs = [
            (i, j)
            for i, one in enumerate(queries)
            for j, of_caption in enumerate(one["queries"])
            if of_caption and has_regions[i]
        ]
        size = len(pictures)
        return (pairs[start : start + size] for start in range(0, len(pairs), size))

    def _attend(
        self,
        batch: Sequence[tuple[int, int]],
        pictures: Sequence[Picture],
        queries: Sequence[ImageQueries],
    ) -> Iterator[tuple[int, int, JointAttention]]:
        texts = [queries[i]["texts"][j] for i, j in batch]
        attentions = self.model.attend([pictures[i] for i, _ in batch], texts)
        for (i, j), attention in zip(batch, attentions, strict=True):
            yield i, j, attention

    def _count(
        self, stats: Tensor, queries: Sequence[ImageQueries], geometries: Mapping[int, Geometry]
    ) -> None:
        """Add the counts and target statistics of all queries, whether or not they were read."""
        for i, one in enumerate(queries):
            of_image = [query for of_caption in one["queries"] for query in of_caption]
            if not of_image:
                continue
            cells = torch.tensor([i * self.groups + query[0] for query in of_image])
            rows = torch.zeros(len(of_image), stats.shape[1], dtype=torch.float64)
            rows[:, COUNTED.index("n")] = 1
            if i in geometries:
                rows[:, len(COUNTED) :] = geometries[i].stats[[query[3] for query in of_image]]
            else:
                rows[:, COUNTED.index("without_regions")] = 1
            stats.index_add_(0, cells, rows)

    def _row(
        self,
        i: int,
        stats: Tensor,
        sums: Tensor | None,
        found: Geometry | None,
        whole: bool | None,
    ) -> dict[str, Any]:
        cells = slice(i * self.groups, (i + 1) * self.groups)
        return {
            "heads": sums[cells].float() if sums is not None and found else None,
            "stats": stats[cells],
            "whole": whole,
            "own_patches": found.own_patches if found else None,
            "has_scores": found.has_scores if found else None,
        }


def with_proposals(pictures: Sequence[Picture], detector: Detector | None) -> list[Picture]:
    """Return pictures where a detector has proposed regions for those without any."""
    bare = [i for i, p in enumerate(pictures) if p.regions is None and p.image is not None]
    found = list(pictures)
    if detector is not None and bare:
        for i, regions in zip(bare, detector.detect([pictures[i] for i in bare]), strict=True):
            found[i] = pictures[i]._replace(regions=regions)
    return found


def query_attention(
    attention: JointAttention, found: Geometry, queries: Sequence[Query]
) -> tuple[QueryAttention, list[Query]]:
    """Return the attention of the queries whose word has a token, and these queries.

    The attention of a word is that of its last sub-word.
    """
    _refuse_misfit(attention)
    named = [Query(*query) for query in queries]
    tokens = [last_token(attention.spans, query.start, query.stop) for query in named]
    read = [query for query, token in zip(named, tokens, strict=True) if token is not None]
    rows = torch.tensor([t for t in tokens if t is not None], dtype=torch.int64)
    weights = attention.weights[:, :, rows.to(attention.weights.device)].permute(2, 0, 1, 3)
    targets = [query.target for query in read]
    scores = weights if found.coverage is None else weights @ found.coverage.to(weights)
    parts = (part[targets].to(weights.device) for part in (found.right, found.inside, found.gold))
    return QueryAttention(weights, scores, *parts), read


def measure(parts: Sequence[QueryAttention]) -> Tensor:
    """Return the measures of each head, float64 [Q, layers, heads, MEASURES], on the CPU."""
    weights = _joined([part.weights for part in parts], 0.0)
    scores = _joined([part.scores for part in parts], 0.0)
    right = _joined([part.right for part in parts], value=False)[:, None, None]
    inside = _joined([part.inside for part in parts], value=False)[:, None, None]
    gold = _joined([part.gold for part in parts], 0.0)[:, None, None].to(weights)
    # What pads a row is no candidate.
    regions = _joined([torch.ones_like(part.right) for part in parts], value=False)[:, None, None]
    columns = _joined([torch.ones_like(part.inside) for part in parts], value=False)[:, None, None]
    chosen = choose_any(scores, right, candidates=regions)
    total = weights.sum(-1)
    on_gold = (weights * gold).sum(-1) / total.masked_fill(total == 0, 1.0)
    pointed = choose_any(weights, inside, candidates=columns).credit
    measures = (chosen.credit, pointed, on_gold, total, chosen.tied)
    return torch.stack([one.double() for one in measures], -1).cpu()


def _joined(parts: Sequence[Tensor], value: float) -> Tensor:
    """Return [Q_i, ..., R_i] as [sum of Q, ..., the largest R], padded with a value."""
    width = max(part.shape[-1] for part in parts)
    return torch.cat([pad(part, (0, width - part.shape[-1]), value=value) for part in parts])


def _refuse_misfit(attention: JointAttention) -> None:
    shape = list(attention.weights.shape)
    wanted = [len(attention.spans), len(attention.boxes)]
    if len(shape) != 4 or shape[2:] != wanted:
        raise ValueError(f"attention has shape {shape}; wanted [layers, heads, *{wanted}]")
