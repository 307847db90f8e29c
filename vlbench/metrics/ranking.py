"""Choices among scores. Tied candidates share the credit, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# Scores are tied within this fraction of the largest magnitude that entered them: exact equality
# misses ties after the rounding of a matrix product.
TIED = 1e-6


class Choice(NamedTuple):
    """The credit of each row's choice, float64 [N] in [0, 1], and whether it was tied, bool [N]."""

    credit: Tensor
    tied: Tensor


def choose(scores: Tensor, right: Tensor, *, scale: Tensor | None = None) -> Choice:
    """Return the credit of choosing the highest of [N, C] scores where `right` [N] is right.

    Where several are tied for the highest, the credit is 1 / (number tied) if the right one is
    among them, otherwise 0. `scale` [N] is the largest
    magnitude that entered a row's scores before it cancelled, such as |x|^2 + max |p|^2 for squared
    distances; by default the largest |score| of the row. A score of -inf is no candidate.
    Scores narrower than float32 are widened. Raises ValueError for NaN, +inf or nothing to choose.
    """
    scores = scores if scores.dtype == torch.float64 else scores.float()
    best = scores.amax(1)
    _refuse("the best score", best)
    if scale is None:
        scale = scores.abs().masked_fill(scores == -torch.inf, 0.0).amax(1)
    _refuse("the scale", scale)
    near = scores >= (best - TIED * scale).unsqueeze(1)
    tied = near.sum(1, dtype=torch.int32)
    hit = near.gather(1, right.unsqueeze(1)).squeeze(1)
    return Choice(hit / tied.double(), tied > 1)


def choose_any(scores: Tensor, right: Tensor) -> Choice:
    """Return the credit of choosing the highest of [..., C] scores where several may be right.

    `right` is bool [..., C]. The credit, float64 [...], is the fraction of the candidates tied for
    the highest, as for `choose`, that are right. A score of -inf is no candidate.
    Raises ValueError for NaN, +inf or nothing to choose.
    """
    best = scores.amax(-1, keepdim=True)
    if not best.isfinite().all():
        raise ValueError("a score is not finite, or there is nothing to choose")
    scale = scores.abs().masked_fill(scores == -torch.inf, 0.0).amax(-1, keepdim=True)
    near = scores >= best - TIED * scale
    tied = near.sum(-1)
    return Choice((near & right).sum(-1) / tied.double(), tied > 1)


def credit_among(scores: Tensor, right: Tensor, guesses: int | Tensor) -> Tensor:
    """Return how likely the right one [N] is among so many highest of [N, C] scores, float64 [N].

    Scores within 1e-6 of the row's largest |score| are tied, and their order is chance. Several
    numbers of guesses, [K, 1], give [K, N].
    """
    own = scores.gather(1, right.unsqueeze(1))
    margin = TIED * scores.abs().amax(1, keepdim=True)
    better = (scores > own + margin).sum(1)
    tied = ((scores - own).abs() <= margin).sum(1)
    return ((guesses - better).double() / tied).clamp(0, 1)


def join_choices(parts: Sequence[Choice]) -> Choice:
    """Return the choices of several blocks of rows as one."""
    return Choice(torch.cat([c.credit for c in parts]), torch.cat([c.tied for c in parts]))


def _refuse(what: str, values: Tensor) -> None:
    """Raise for values that are not finite; NaN anywhere in a row makes the row's best NaN."""
    bad = (~values.isfinite()).nonzero()
    if len(bad):
        row = int(bad[0])
        raise ValueError(f"{what} of row {row} is {float(values[row])}; wanted a finite number")
