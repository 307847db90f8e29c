"""Attention of every head from queried words to regions, scored and summed inside the batch.

Shared by `entity_grounding` and `syntactic_grounding`: a query asks whether a word of a caption
attends to its target, which is any of several gold boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import Detector, JointAttender, JointAttention, Picture, Regions
from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError
from vlbench.probes.grounding.measures import (
    JUDGED,
    MEASURES,
    READ,
    SAME_BOX,
    STATS,
    Geometry,
    ImageQueries,
    Query,
    geometry,
    measure,
    query_attention,
    require_attention,
)

# Counts over the queries, in addition to the statistics of their targets.
COUNTED = ("n", "read", "without_regions")

# A model's `attend`, and a detector's `detect`.
Attend = Callable[[Sequence[Picture], Sequence[str]], list[JointAttention]]
Detect = Callable[[Sequence[Picture]], list[Regions]]


class HeadSums(NamedTuple):
    """Sums over the queries of each image: float32 [images, groups, layers, heads, MEASURES].

    `stats` are float64 [images, groups, COUNTED + STATS]. `whole`: the softmax is over the whole
    input; `own_patches`: columns are the model's patches; `has_scores`: all regions have scores.
    For each image, `queries` has the first of the MEASURES, `JUDGED`, float32 [Q, layers, heads,
    JUDGED], `chosen` the number of the box that a head chose, int64 [Q, layers, heads], -1 for
    none, and `boxes` are the boxes [P, 4]; all are None for an image without regions.
    """

    heads: NDArray[np.float32]
    stats: NDArray[np.float64]
    whole: bool
    own_patches: bool
    has_scores: bool
    queries: Sequence[Tensor | None] = ()
    chosen: Sequence[Tensor | None] = ()
    boxes: Sequence[Tensor | None] = ()


def head_sums(
    reader: AttentionReader, pictures: Column, queries: Column, engine: Engine
) -> HeadSums:
    """Return the sums over all queries of each image, one caption per row of a forward pass.

    A query is wrong if its image has no regions, or its word has no token. Raises CannotDo if no
    image has regions, and DataError for attention that `require_attention` refuses.
    """
    key = {"what": "attention of heads, and their choices"} | vars(reader)
    attend = engine.checked(reader.model.attend)
    detect = engine.checked(reader.detector.detect) if reader.detector else None

    def read(pictures: Sequence[Picture], queries: Sequence[ImageQueries]) -> list[dict[str, Any]]:
        return reader.read(with_proposals(pictures, detect), queries, attend)

    rows = engine.map(read, pictures, queries, key=key)
    with_regions = [row for row in rows if row["heads"] is not None]
    if not with_regions:
        raise CannotDo("no picture has regions for the model to choose from")
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
        queries=[row["queries"] for row in rows],
        chosen=[row["chosen"] for row in rows],
        boxes=[row["boxes"] for row in rows],
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
        self, pictures: Sequence[Picture], queries: Sequence[ImageQueries], attend: Attend
    ) -> list[dict[str, Any]]:
        """Return the sums of each image; a batch has as many captions as `pictures` has images."""
        first = _first_queries(queries)
        was_read = torch.zeros(first[-1][0], dtype=torch.bool)
        measured: Tensor | None = None
        geometries: dict[int, Geometry] = {}
        whole: dict[int, bool] = {}
        boxes, columns = dict[int, Tensor](), dict[int, Tensor]()
        for batch in self._batches(pictures, queries):
            parts, numbers = [], []
            texts = [queries[i]["texts"][j] for i, j in batch]
            attentions = attend([pictures[i] for i, _ in batch], texts)
            for (i, j), text, attention in zip(batch, texts, attentions, strict=True):
                require_attention(attention, text)
                if i not in geometries:
                    regions = pictures[i].regions
                    assert regions
                    gold = queries[i]["targets"], queries[i].get("things")
                    geometries[i] = placed = geometry(regions, attention.boxes, *gold)
                    boxes[i] = (regions.boxes if placed.own_patches else attention.boxes).cpu()
                own = attention.boxes.detach().cpu()
                first_own = columns.setdefault(i, own)
                if own.shape != first_own.shape or (own - first_own).abs().gt(SAME_BOX).any():
                    raise DataError(f"{text!r:.80} has other boxes than another text of its image")
                whole[i] = attention.whole
                words = queries[i]["queries"][j]
                part, read = query_attention(attention, geometries[i], words)
                parts.append(part)
                numbers += [first[i][j] + k for k in read]
            sums = measure(parts)
            if measured is None:
                measured = torch.zeros(len(was_read), *sums.shape[1:], dtype=torch.float64)
            measured[numbers] = sums
            was_read[numbers] = True
        rows = []
        for i, one in enumerate(queries):
            span = slice(first[i][0], first[i + 1][0])
            row = self._row(
                one, geometries.get(i), was_read[span], None if measured is None else measured[span]
            )
            rows.append({**row, "whole": whole.get(i), "boxes": boxes.get(i)})
        return rows

    def _batches(
        self, pictures: Sequence[Picture], queries: Sequence[ImageQueries]
    ) -> Iterator[list[tuple[int, int]]]:
        """Yield the numbers of images and of their queried captions, a batch at a time."""
        has_regions = [bool(p.regions is not None and len(p.regions.boxes)) for p in pictures]
        pairs = [
            (i, j)
            for i, of_image in enumerate(queries)
            for j, of_caption in enumerate(of_image["queries"])
            if of_caption and has_regions[i]
        ]
        size = len(pictures)
        return (pairs[start : start + size] for start in range(0, len(pairs), size))

    def _row(
        self,
        queries: ImageQueries,
        placed: Geometry | None,
        was_read: Tensor,
        measured: Tensor | None,
    ) -> dict[str, Any]:
        """Return the sums over the queries of an image, whether or not they were read."""
        image_queries = [Query(*query) for of_text in queries["queries"] for query in of_text]
        groups = torch.tensor([query.group for query in image_queries], dtype=torch.int64)
        counted = {"n": torch.ones(len(image_queries)), "read": was_read}
        counted["without_regions"] = torch.full((len(image_queries),), placed is None)
        stats = torch.zeros(len(image_queries), len(COUNTED) + len(STATS), dtype=torch.float64)
        stats[:, : len(COUNTED)] = torch.stack([counted[name].double() for name in COUNTED], 1)
        if placed:
            stats[:, len(COUNTED) :] = placed.stats[[query.target for query in image_queries]]
        read = measured if placed else None
        chosen = None
        if read is not None:
            chosen = read[..., READ.index("chosen")].long()
            chosen[~was_read] = -1
            read = read[..., : len(MEASURES)]
        return {
            "chosen": chosen,
            "heads": None if read is None else _group_sums(read, groups, self.groups).float(),
            "queries": None if read is None else read[..., : len(JUDGED)].float(),
            "stats": _group_sums(stats, groups, self.groups),
            "own_patches": placed.own_patches if placed else None,
            "has_scores": placed.has_scores if placed else None,
        }


def _group_sums(rows: Tensor, groups: Tensor, n: int) -> Tensor:
    """Return the sums of rows [Q, ...] in each of n groups, float64 [n, ...]."""
    return torch.zeros(n, *rows.shape[1:], dtype=torch.float64).index_add_(0, groups, rows)


def _first_queries(queries: Sequence[ImageQueries]) -> list[list[int]]:
    """Return the number of the first query of each text of each image, then the total."""
    sizes = [[len(of_text) for of_text in query["queries"]] for query in queries]
    starts, total = [], 0
    for of_image in sizes:
        starts.append(list(accumulate(of_image, initial=total)))
        total = starts[-1][-1]
    return [*starts, [total]]


def with_proposals(pictures: Sequence[Picture], detect: Detect | None) -> list[Picture]:
    """Return pictures, after a detector's `detect` proposed regions for pictures without any."""
    bare = [i for i, p in enumerate(pictures) if p.regions is None and p.image is not None]
    numbered = list(pictures)
    if detect is not None and bare:
        for i, regions in zip(bare, detect([pictures[i] for i in bare]), strict=True):
            numbered[i] = pictures[i]._replace(regions=regions)
    return numbered
