"""Measures of attention: from the queried words of a caption, by every head, to regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from vlbench.capabilities import JointAttention
from vlbench.data.words import last_token
from vlbench.metrics.ranking import choose_any
from vlbench.probes.grounding.queries import Query
from vlbench.probes.grounding.targets import Geometry

# What a query is judged by, and what is measured beside it.
JUDGED = ("accuracy", "pointing_accuracy", "attention_on_gold")
MEASURES = (*JUDGED, "attention", "ties")


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


def query_attention(
    attention: JointAttention, found: Geometry, queries: Sequence[Query]
) -> tuple[QueryAttention, list[int]]:
    """Return the attention of the queries whose word has a token, and the numbers of these queries.

    The attention of a word is that of its last sub-word.
    """
    _refuse_misfit(attention)
    named = [Query(*query) for query in queries]
    tokens = [last_token(attention.spans, query.start, query.stop) for query in named]
    read = [k for k, token in enumerate(tokens) if token is not None]
    rows = torch.tensor([t for t in tokens if t is not None], dtype=torch.int64)
    weights = attention.weights[:, :, rows.to(attention.weights.device)].permute(2, 0, 1, 3)
    targets = [named[k].target for k in read]
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
