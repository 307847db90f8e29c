"""Choices among scores. Tied candidates share the credit, whatever their order.

A score that is not finite is refused: no comparison with NaN is true, so that it would count as a
clear win or a clear loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# Scores are tied within this fraction of the largest magnitude that entered them: exact equality
# misses ties after the rounding of a matrix product.
TIED = 1e-6

# Log-odds and log-likelihoods have a unit and no bound: a score far below the best says nothing of
# how exact the best is. They are tied within TIED of the best, or of LEAST if that is more.
LEAST = 10.0

# Scores compared at a time, so that what is compared stays in the processor's cache.
COMPARED = 1 << 18


class Choice(NamedTuple):
    """The credit of each row's choice, float64 [N] in [0, 1], and whether it was tied, bool [N].

    `chosen` is the candidate chosen, int64 [N], -1 where several are tied.
    """

    credit: Tensor
    tied: Tensor
    chosen: Tensor


def tie_margin(compared: Tensor, scale: Tensor, *, log_odds: bool) -> Tensor:
    """Return how far from the scores that they are compared with others are tied.

    It is 1e-6 of the `scale`, the largest magnitude that entered the scores; of log-odds and
    log-likelihoods 1e-6 of the score that is compared with, and at least 1e-5.
    """
    return TIED * (compared.abs().clamp(min=LEAST) if log_odds else scale)


def choose(
    scores: Tensor, right: Tensor, *, scale: Tensor | None = None, log_odds: bool = False
) -> Choice:
    """Return the credit of choosing the highest of [N, C] scores where `right` [N] is right.

    Where several are tied for the highest, as `tie_margin` says, the credit is 1 / (number tied) if
    the right one is among them, otherwise 0. `scale` [N] is the largest
    magnitude that entered a row's scores before it cancelled, such as |x|^2 + max |p|^2 for squared
    distances; by default the largest |score| of the row. Scores narrower than float32 are widened.
    Raises ValueError, with the row, for a score or a scale that is not finite.
    """
    rows = _rows(scores, log_odds=log_odds)
    if scale is not None:
        _refuse_scale(scale)
        rows = rows._replace(scale=scale.unsqueeze(1))
    near = _tied_for_best(rows)
    tied = near.sum(1, dtype=torch.int32)
    hit = near.gather(1, right.unsqueeze(1)).squeeze(1)
    return Choice(hit / tied.double(), tied > 1, _choice_of(near, tied))


def choose_any(
    scores: Tensor, right: Tensor, *, candidates: Tensor | None = None, log_odds: bool = False
) -> Choice:
    """Return the credit of choosing the highest of [..., C] scores where several may be right.

    `right` is bool [..., C]. The credit, float64 [...], is the fraction of the candidates tied for
    the highest, as for `choose`, that are right. `candidates`, bool and broadcast to [..., C], says
    which scores count, by default all; the others, such as padding, may have any value. Raises
    ValueError, with the row, for a candidate whose score is not finite, and for none.
    """
    rows = _rows(scores, candidates, log_odds=log_odds)
    near = _tied_for_best(rows)
    tied = near.sum(-1)
    return Choice((near & right).sum(-1) / tied.double(), tied > 1, _choice_of(near, tied))


def credit_among(
    scores: Tensor, right: Tensor, guesses: int | Tensor, *, log_odds: bool = False
) -> Tensor:
    """Return how likely the right one [N] is among the `guesses` highest of [N, C], float64 [N].

    Scores within the `tie_margin` of the right one are tied with it, and their order is chance.
    Several numbers of guesses, [K, 1], give [K, N]. Raises ValueError, with the row, for a score
    that is not finite.
    """
    rows = _rows(scores, log_odds=log_odds)
    own = rows.scores.gather(1, right.unsqueeze(1))
    margin = rows.margin(own)
    better = (rows.scores > own + margin).sum(1)
    tied = ((rows.scores - own).abs() <= margin).sum(1)
    return ((guesses - better).double() / tied).clamp(0, 1)


class BestRank(NamedTuple):
    """The rank of the best right candidate of each of N queries; int64 [N] each.

    `better` candidates score higher than it; `tied` are tied with it, itself among them, and `own`
    of these are right, so that 1 <= own <= tied.
    """

    better: Tensor
    tied: Tensor
    own: Tensor


def best_rank(scores: Tensor, right: Tensor, *, log_odds: bool = False) -> BestRank:
    """Return the rank of the best right candidate in each row of [N, C] scores.

    `right` [N, R] has the places of a row's right candidates, each once; -1 fills up rows that have
    fewer. Scores within the `tie_margin` of the best right one are tied with it. Nothing is sorted.
    Raises ValueError, with the row, for a score that is not finite and for no right candidate.
    """
    lacking = (right < 0).all(1).nonzero()
    if len(lacking):
        raise ValueError(f"row {int(lacking[0])} has no right candidate")
    rows, right = _rows(scores, log_odds=log_odds), right.to(scores.device)
    own = rows.scores.gather(1, right.clamp(min=0)).masked_fill(right < 0, -torch.inf)
    best = own.amax(1, keepdim=True)
    margin = rows.margin(best)
    better, reached = _count_above(rows.scores, best + margin, best - margin)
    tied_own = (own >= best - margin).sum(1)
    return BestRank(*(count.cpu() for count in (better, reached - better, tied_own)))


def _count_above(scores: Tensor, bound: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many of [N, C] scores exceed a bound [N, 1], and how many reach the least one.

    Pieces that lie together in memory are compared at a time, also of a transposed matrix.
    """
    above, reached = (
        torch.zeros(len(scores), dtype=torch.int64, device=scores.device) for _ in "12"
    )
    by_row = scores.stride(0) >= scores.stride(1)
    size = max(1, COMPARED // scores.shape[1 if by_row else 0])
    for start in range(0, scores.shape[0 if by_row else 1], size):
        piece = slice(start, start + size)
        rows, columns = (piece, slice(None)) if by_row else (slice(None), piece)
        x = scores[rows, columns]
        above[rows] += (x > bound[rows]).sum(1, dtype=torch.int32)
        reached[rows] += (x >= least[rows]).sum(1, dtype=torch.int32)
    return above, reached


def recall_at(found: BestRank, k: int) -> Tensor:
    """Return how likely one right candidate or more is among the first k, float64 [N].

    The order of t tied candidates is chance: with r places left for them, of which o are right, it
    is 1 - C(t - o, r) / C(t, r).
    """
    tied, left = found.tied.double(), (k - found.better).double()
    left = torch.minimum(left.clamp(min=0), tied)
    # If the right ones take random places in turn, the i-th gets one of r among t - i.
    hit = torch.zeros_like(tied)
    for i in range(int(found.own.max()) if len(tied) else 0):
        gets = (left / (tied - i).clamp(min=1)).clamp(max=1)
        hit += (1 - hit) * torch.where(i < found.own, gets, 0.0)
    return hit


def expected_rank(found: BestRank) -> Tensor:
    """Return the expected rank, from 1, of the best right candidate, float64 [N].

    Of t tied in random order, o of them right, the first right one is expected at place
    (t + 1) / (o + 1).
    """
    return found.better + (found.tied + 1).double() / (found.own + 1)


def ranks_of_chance(candidates: Tensor, right: Tensor) -> BestRank:
    """Return the rank of the best of `right` [N] candidates if all `candidates` [N] are tied."""
    return BestRank(torch.zeros_like(candidates), candidates, right)


def join_ranks(parts: Sequence[BestRank]) -> BestRank:
    """Return the ranks of several blocks of rows as one."""
    return BestRank(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def join_choices(parts: Sequence[Choice]) -> Choice:
    """Return the choices of several blocks of rows as one."""
    return Choice(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


class _Rows(NamedTuple):
    """Scores [..., C], and of each row the highest and the largest magnitude, [..., 1]."""

    scores: Tensor
    best: Tensor
    scale: Tensor
    log_odds: bool

    def margin(self, compared: Tensor) -> Tensor:
        """Return how far from the scores [..., 1] of each row others are tied with them."""
        return tie_margin(compared, self.scale, log_odds=self.log_odds)


def _rows(scores: Tensor, candidates: Tensor | None = None, *, log_odds: bool) -> _Rows:
    """Return rows of scores, whose candidates are finite; what is no candidate becomes -inf."""
    scores = scores if scores.dtype == torch.float64 else scores.float()
    high = low = scores
    if candidates is not None:
        high, low = (scores.masked_fill(~candidates, x) for x in (-torch.inf, torch.inf))
    best, least = high.amax(-1, keepdim=True), low.amin(-1, keepdim=True)
    # NaN anywhere in a row makes both NaN.
    _refuse(best, least)
    return _Rows(high, best, torch.maximum(best.abs(), least.abs()), log_odds)


def _tied_for_best(rows: _Rows) -> Tensor:
    """Return which scores of a row are tied for its highest, bool [..., C]."""
    return rows.scores >= rows.best - rows.margin(rows.best)


def _choice_of(near: Tensor, tied: Tensor) -> Tensor:
    # As bytes: the place of the only one is found in half the time of the highest score's.
    return near.view(torch.uint8).argmax(-1).masked_fill(tied > 1, -1)


def _refuse(best: Tensor, least: Tensor) -> None:
    bad = (~(best.isfinite() & least.isfinite())).squeeze(-1).nonzero()
    if not len(bad):
        return
    place = tuple(bad[0].tolist())
    row = ", ".join(map(str, place))
    high, low = float(best[place]), float(least[place])
    if high < low:
        raise ValueError(f"row {row} has no candidate to choose")
    value = low if math.isfinite(high) else high
    raise ValueError(f"a score is not finite: row {row} has {value}")


def _refuse_scale(scale: Tensor) -> None:
    bad = (~scale.isfinite()).nonzero()
    if len(bad):
        row = int(bad[0])
        raise ValueError(f"the scale of row {row} is {float(scale[row])}; wanted a finite number")


def require_finite(features: Tensor) -> None:
    """Raise ValueError, with the row, for [N, D] numbers that are not all finite."""
    bad = (~features.isfinite()).any(1).nonzero()
    if len(bad):
        raise ValueError(f"row {int(bad[0])} has NaN or infinite values")


def all_equal(features: Tensor) -> bool:
    """Return whether two or more rows of [N, D] are equal, within 1e-6 of the largest |x|.

    Raises ValueError for numbers that are not finite.
    """
    require_finite(features)
    low, high = features.aminmax(dim=0)
    largest = torch.maximum(low.abs(), high.abs()).amax()
    return len(features) > 1 and bool((high - low <= TIED * largest).all())


def all_parallel(features: Tensor) -> bool:
    """Return whether all rows of [N, D] are zero, or point the same or the opposite way.

    They do where every |cosine| to the first row is within 1e-6 of 1: the affinities are tied.
    Raises ValueError for numbers that are not finite.
    """
    require_finite(features)
    from sklearn.preprocessing import normalize  # noqa: PLC0415 - slow to import, for one probe

    unit = normalize(features.double().numpy(), copy=False)
    return bool((np.abs(unit @ unit[0]) >= 1 - TIED).all()) or not unit.any()
