"""What words look at: the attention of every head, judged and summed inside the batch.

What `entity_grounding` and `syntactic_grounding` share: a query asks whether a word of a caption
looks at its target, any of some gold boxes, and belongs to a group whose scores are kept apart.
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
from vlbench.digests import source_digest
from vlbench.engine import Engine
from vlbench.errors import CannotDo
from vlbench.metrics.boxes import iou
from vlbench.metrics.ranking import choose_any
from vlbench.probes.grounding.targets import STATS, Geometry, geometry

# What is summed over the queries of each head.
MEASURES = ("accuracy", "pointing_accuracy", "attention_on_gold", "attention", "ties")

# What is counted of the queries, beside what targets know of themselves.
COUNTED = ("n", "read", "without_regions")


class Query(NamedTuple):
    """The word at these characters of a caption should look at this target."""

    group: int
    start: int
    stop: int
    target: int


# Of one image: `texts`, `queries` (a list for each text) and `targets` (lists of xyxy boxes).
Asked = Mapping[str, Any]


class Tally(NamedTuple):
    """Sums over the queries of each image: float32 [images, groups, layers, heads, MEASURES].

    `stats` are float64 [images, groups, COUNTED + STATS]. `whole` says that the softmax ran over
    the whole input, `own` that columns are the model's own patches, `confident` that all regions
    have scores.
    """

    heads: NDArray[np.float32]
    stats: NDArray[np.float64]
    whole: bool
    own: bool
    confident: bool


class Look(NamedTuple):
    """What Q queries of one caption see: weights [Q, L, H, R], and scores of P regions."""

    weights: Tensor
    scores: Tensor
    right: Tensor  # bool [Q, P]
    inside: Tensor  # bool [Q, R]
    gold: Tensor  # [Q, R], the share of a column that is of the target


def tally(reader: Reader, pictures: Column, asked: Column, engine: Engine) -> Tally:
    """Return the sums over all queries, image by image: one caption a forward row.

    A query is wrong where its image has no regions, or its word no token. Raises CannotDo where no
    image has regions, and ValueError for attention that does not fit its spans and boxes.
    """
    code = [source_digest(function) for function in (geometry, choose_any, iou, last_token)]
    key = {"what": "attention of heads", "code": code} | vars(reader)
    known = all(engine.knows(model) for model in (reader.model, reader.detector) if model)
    rows = engine.map(reader.look, pictures, asked, key=key if known else None)
    seen = [row for row in rows if row["heads"] is not None]
    if not seen:
        raise CannotDo("no picture has regions among which the model could choose")
    heads = np.zeros((len(rows), *seen[0]["heads"].shape), np.float32)
    for i, row in enumerate(rows):
        if row["heads"] is not None:
            heads[i] = row["heads"].numpy()
    return Tally(
        heads=heads,
        stats=np.stack([row["stats"].numpy() for row in rows]),
        whole=all(row["whole"] for row in seen),
        own=any(row["own"] for row in seen),
        confident=all(row["confident"] for row in seen),
    )


@dataclass(frozen=True)
class Reader:
    """Reads a model's attention, and keeps of it what is summed over an image's queries."""

    model: JointAttender
    groups: int
    detector: Detector | None = None  # proposes regions for pictures without

    def look(self, pictures: Sequence[Picture], asked: Sequence[Asked]) -> list[dict[str, Any]]:
        """Return each image's sums; as many captions at a time as there are images in the batch."""
        pictures = proposed(pictures, self.detector)
        cells = len(pictures) * self.groups
        stats = torch.zeros(cells, len(COUNTED) + len(STATS), dtype=torch.float64)
        sums: Tensor | None = None
        known: dict[int, Geometry] = {}
        whole: dict[int, bool] = {}
        for chunk in self._captions(pictures, asked):
            looks, places = [], []
            for i, j, attention in self._attended(chunk, pictures, asked):
                if i not in known:
                    regions = pictures[i].regions
                    assert regions
                    known[i] = geometry(regions, attention.boxes, asked[i]["targets"])
                whole[i] = attention.whole
                look, found = look_of(attention, known[i], asked[i]["queries"][j])
                looks.append(look)
                places += [i * self.groups + query.group for query in found]
            found_at = torch.tensor(places, dtype=torch.int64)
            measured = measure(looks)
            if sums is None:
                sums = torch.zeros(cells, *measured.shape[1:], dtype=torch.float64)
            sums.index_add_(0, found_at, measured)
            stats[:, COUNTED.index("read")] += torch.bincount(found_at, minlength=cells)
        self._count(stats, asked, known)
        return [self._row(i, stats, sums, known.get(i), whole.get(i)) for i in range(len(pictures))]

    def _captions(
        self, pictures: Sequence[Picture], asked: Sequence[Asked]
    ) -> Iterator[list[tuple[int, int]]]:
        """Yield image and caption numbers of what is asked, a batch at a time."""
        there = [bool(p.regions is not None and len(p.regions.boxes)) for p in pictures]
        pairs = [
            (i, j)
            for i, one in enumerate(asked)
            for j, queries in enumerate(one["queries"])
            if queries and there[i]
        ]
        size = len(pictures)
        return (pairs[start : start + size] for start in range(0, len(pairs), size))

    def _attended(
        self, chunk: Sequence[tuple[int, int]], pictures: Sequence[Picture], asked: Sequence[Asked]
    ) -> Iterator[tuple[int, int, JointAttention]]:
        given = [pictures[i] for i, _ in chunk]
        attentions = self.model.attend(given, [asked[i]["texts"][j] for i, j in chunk])
        for (i, j), attention in zip(chunk, attentions, strict=True):
            yield i, j, attention

    def _count(self, stats: Tensor, asked: Sequence[Asked], known: Mapping[int, Geometry]) -> None:
        """Add what is known of all queries, read or not."""
        for i, one in enumerate(asked):
            queries = [query for queries in one["queries"] for query in queries]
            if not queries:
                continue
            cells = torch.tensor([i * self.groups + query[0] for query in queries])
            rows = torch.zeros(len(queries), stats.shape[1], dtype=torch.float64)
            rows[:, COUNTED.index("n")] = 1
            if i in known:
                rows[:, len(COUNTED) :] = known[i].stats[[query[3] for query in queries]]
            else:
                rows[:, COUNTED.index("without_regions")] = 1
            stats.index_add_(0, cells, rows)

    def _row(
        self,
        i: int,
        stats: Tensor,
        sums: Tensor | None,
        known: Geometry | None,
        whole: bool | None,
    ) -> dict[str, Any]:
        mine = slice(i * self.groups, (i + 1) * self.groups)
        heads = sums[mine].float() if sums is not None and known else None
        return {
            "heads": heads,
            "stats": stats[mine],
            "whole": whole,
            "own": known.own if known else None,
            "confident": known.confident if known else None,
        }


def proposed(pictures: Sequence[Picture], detector: Detector | None) -> list[Picture]:
    """Return pictures with the regions that a detector finds where they have none of their own."""
    bare = [i for i, p in enumerate(pictures) if p.regions is None and p.image is not None]
    given = list(pictures)
    if detector is not None and bare:
        for i, regions in zip(bare, detector.detect([pictures[i] for i in bare]), strict=True):
            given[i] = pictures[i]._replace(regions=regions)
    return given


def look_of(
    attention: JointAttention, seen: Geometry, queries: Sequence[Query]
) -> tuple[Look, list[Query]]:
    """Return what the queries see whose word has a token, and these queries.

    A word looks with its last sub-word.
    """
    _refuse_misfit(attention)
    named = [Query(*query) for query in queries]
    tokens = [last_token(attention.spans, query.start, query.stop) for query in named]
    found = [query for query, token in zip(named, tokens, strict=True) if token is not None]
    rows = torch.tensor([t for t in tokens if t is not None], dtype=torch.int64)
    weights = attention.weights[:, :, rows.to(attention.weights.device)].permute(2, 0, 1, 3)
    targets = [query.target for query in found]
    scores = weights if seen.shares is None else weights @ seen.shares.to(weights)
    parts = (part[targets].to(weights.device) for part in (seen.right, seen.inside, seen.gold))
    return Look(weights, scores, *parts), found


def measure(looks: Sequence[Look]) -> Tensor:
    """Return what each head of each query earns, float64 [Q, layers, heads, MEASURES], CPU."""
    weights = _joined([look.weights for look in looks], 0.0)
    reaching = _joined([look.weights for look in looks], -torch.inf)
    scores = _joined([look.scores for look in looks], -torch.inf)
    right, inside = (
        _joined([look[part] for look in looks], value=False)[:, None, None] for part in (2, 3)
    )
    gold = _joined([look.gold for look in looks], 0.0)[:, None, None].to(weights)
    chosen = choose_any(scores, right)
    total = weights.sum(-1)
    on_gold = (weights * gold).sum(-1) / total.masked_fill(total == 0, 1.0)
    pointed = choose_any(reaching, inside).credit
    parts = (chosen.credit, pointed, on_gold, total, chosen.tied)
    return torch.stack([part.double() for part in parts], -1).cpu()


def _joined(parts: Sequence[Tensor], value: float) -> Tensor:
    """Return [Q_i, ..., R_i] as [sum of Q, ..., the largest R], filled up with a value."""
    width = max(part.shape[-1] for part in parts)
    return torch.cat([pad(part, (0, width - part.shape[-1]), value=value) for part in parts])


def _refuse_misfit(attention: JointAttention) -> None:
    shape = list(attention.weights.shape)
    wanted = [len(attention.spans), len(attention.boxes)]
    if len(shape) != 4 or shape[2:] != wanted:
        raise ValueError(f"attention has shape {shape}; wanted [layers, heads, *{wanted}]")
