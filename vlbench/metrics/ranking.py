"""Choices among scores. Tied candidates share the credit, whatever their order.

A score that is not finite is refused: comparisons with NaN are false, so that it would count as a
clear win or loss.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

# Scores are tied within this fraction of the largest magnitude that entered them: after the
# rounding of a matrix product, equal scores may differ.
TIED = 1e-6

# Log-odds and log-likelihoods have no bound: the magnitude of a score far below the best is
# unrelated to the rounding of the best. They are tied within TIED times the best, or times LEAST if
# this is more.
LEAST = 10.0

# Means of credit that differ by less are equal.
ROUNDING = 1e-9

# Scores compared at a time, so that they stay in the processor's cache.
COMPARED = 1 << 19

# Candidates of a part of a row; only the part that has the best of the row is searched for it.
PART = 256


class Choice(NamedTuple):
    """The credit of each row's choice, float64 [N] in [0, 1], and whether it was tied, bool [N].

    `chosen` is the chosen candidate, int64 [N], -1 if several are tied.
    """

    credit: Tensor
    tied: Tensor
    chosen: Tensor


def without_answer(credit: Tensor) -> Choice:
    """Return credit [N] as choices that have no single answer, such as five guesses each.

    Example:
        >>> without_answer(torch.tensor([1.0, 0.5])).chosen.tolist()
        [-1, -1]
    """
    none = torch.full(credit.shape, -1)
    return Choice(credit, none > 0, none)


def tie_margin(compared: Tensor, scale: Tensor, *, log_odds: bool) -> Tensor:
    """Return the distance from `compared` within which other scores are tied with it.

    It is 1e-6 of `scale`, the largest magnitude that entered the scores. For log-odds and
    log-likelihoods it is 1e-6 of |compared|, and at least 1e-5.

    Example:
        >>> compared, scale = torch.tensor([-100.0]), torch.tensor([2.0])
        >>> round(float(tie_margin(compared, scale, log_odds=False)), 7)  # 1e-6 * 2
        2e-06
        >>> round(float(tie_margin(compared, scale, log_odds=True)), 7)  # 1e-6 * |-100|
        0.0001
    """
    return TIED * (compared.abs().clamp(min=LEAST) if log_odds else scale)


def choose(
    scores: Tensor, right: Tensor, *, scale: Tensor | None = None, log_odds: bool = False
) -> Choice:
    """Return the credit of choosing the highest of [N, C] scores if `right` [N] is right.

    If several are tied for the highest within `tie_margin`, the credit is 1 / (number tied) if the
    right candidate is among them, otherwise 0. `scale` [N] is the largest magnitude that entered a
    row's scores before cancellation, such as |x|^2 + max |p|^2 for squared distances; by default it
    is the largest |score| of the row. Scores narrower than float32 are widened. Raises ValueError,
    with the row, for a score or a scale that is not finite.

    Example:
        >>> choice = choose(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), torch.tensor([0, 0]))
        >>> choice.credit.tolist(), choice.tied.tolist(), choice.chosen.tolist()
        ([1.0, 0.5], [False, True], [0, -1])
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
    """Return the credit of choosing the highest of [..., C] scores if several may be right.

    `right` is bool [..., C]. The credit, float64 [...], is the fraction of right candidates among
    those tied for the highest, as in `choose`. `candidates`, bool and broadcast to [..., C],
    selects the scores that count, by default all; other scores, such as padding, may have any
    value. Raises ValueError, with the row, if a candidate's score is not finite, and if a row has
    no candidate.

    Example:
        >>> scores, right = torch.tensor([0.9, 0.9, 0.1]), torch.tensor([True, False, True])
        >>> float(choose_any(scores, right).credit)  # one of the two that are tied is right
        0.5
    """
    rows = _rows(scores, candidates, log_odds=log_odds)
    near = _tied_for_best(rows)
    tied = near.sum(-1)
    return Choice((near & right).sum(-1) / tied.double(), tied > 1, _choice_of(near, tied))


def choose_first(scores: Tensor, sizes: Sequence[int], *, log_odds: bool = False) -> Choice:
    """Return choices among `sizes` candidates each, concatenated; the first candidate is right.

    Example:
        >>> choice = choose_first(torch.tensor([0.9, 0.1, 0.2, 0.3, 0.4]), [2, 3])
        >>> choice.credit.tolist(), choice.chosen.tolist()
        ([1.0, 0.0], [0, 2])
    """
    table = torch.zeros(len(sizes), max(sizes), dtype=torch.float64)
    present = torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]
    table[present] = scores.double()
    right = torch.zeros(table.shape, dtype=torch.bool)
    right[:, 0] = True
    return choose_any(table, right, candidates=present, log_odds=log_odds)


def credit_among(
    scores: Tensor, right: Tensor, guesses: int | Tensor, *, log_odds: bool = False
) -> Tensor:
    """Return the probability that `right` [N] is in the `guesses` highest of [N, C], float64 [N].

    Scores within the `tie_margin` of the right score are tied with it, and their order is random.
    Several numbers of guesses, [K, 1], give [K, N]. Raises ValueError, with the row, for a score
    that is not finite.

    Example:
        >>> scores, right = torch.tensor([[3.0, 2.0, 2.0, 1.0]]), torch.tensor([1])
        >>> [float(credit_among(scores, right, guesses)) for guesses in (1, 2, 3)]
        [0.0, 0.5, 1.0]
    """
    rows = _rows(scores, log_odds=log_odds)
    at_right = rows.scores.gather(1, right.unsqueeze(1))
    margin = rows.margin(at_right)
    better = (rows.scores > at_right + margin).sum(1)
    tied = ((rows.scores - at_right).abs() <= margin).sum(1)
    return ((guesses - better).double() / tied).clamp(0, 1)


class RightRanks(NamedTuple):
    """The ranks of R right candidates of each of N queries, best first; int64 [N, R] each.

    `better` counts candidates that score higher than a right candidate, `tied` those tied with it,
    including itself; `right_better` and `right_tied` count the right candidates among them. Queries
    with fewer right candidates have `tied` 0 in the last columns. `first` [N] is the place of the
    candidate that ranks first, -1 if several are tied and not all are right; `first_right` [N] is
    the place of the best right candidate.
    """

    better: Tensor
    tied: Tensor
    right_better: Tensor
    right_tied: Tensor
    first: Tensor
    first_right: Tensor


def right_ranks(scores: Tensor, right: Tensor, *, log_odds: bool = False) -> RightRanks:
    """Return the ranks of the right candidates in each row of [N, C] scores.

    `right` [N, R] has the places of a row's right candidates, each once; rows with fewer are padded
    with -1. Scores within the `tie_margin` of a right candidate's score are tied with it. Only the
    right candidates are sorted. Raises ValueError, with the row, for a score that is not finite and
    for no right candidate.

    Example:
        >>> ranks = right_ranks(torch.tensor([[0.9, 0.5, 0.5, 0.1]]), torch.tensor([[1]]))
        >>> ranks.better.tolist(), ranks.tied.tolist()  # the right candidate ranks second or third
        ([[1]], [[2]])
    """
    sizes = (right >= 0).sum(1)
    if len(lacking := (sizes == 0).nonzero()):
        raise ValueError(f"row {int(lacking[0])} has no right candidate")
    # Both extremes of a part while it is in the cache; among them are the extremes of the row.
    extremes = [(part.amax(1), part.amin(1)) for part in torch.split(scores, PART, 1)]
    highs, lows = (torch.stack(column, 1) for column in zip(*extremes, strict=True))
    rows, right = _rows(torch.cat([highs, lows], 1), log_odds=log_odds), right.to(scores.device)
    rows = rows._replace(scores=scores.to(rows.scores.dtype))
    at_right = rows.scores.gather(1, right.clamp(min=0)).masked_fill(right < 0, -torch.inf)
    at_right, order = at_right.sort(1, descending=True)
    first_right = right.gather(1, order[:, :1]).squeeze(1)
    absent = at_right.isinf()
    margin = torch.where(absent, 0.0, rows.margin(at_right))
    above, least = at_right + margin, at_right - margin
    better, reached = _count_above(rows.scores, above, least, sizes.tolist())
    right_better, right_reached = (
        torch.stack([compare(at_right, bound[:, None]).sum(1) for bound in bounds.unbind(1)], 1)
        for compare, bounds in ((torch.gt, above), (torch.ge, least))
    )
    counts = (better, reached - better, right_better, right_reached - right_better)
    ranks = [count.masked_fill(absent, 0) for count in counts]
    all_right = (better[:, 0] == 0) & (reached[:, 0] == right_reached[:, 0])
    first = torch.where(all_right, first_right, _only_best(rows, highs))
    return RightRanks(*(x.cpu() for x in (*ranks, first, first_right)))


def _only_best(rows: _Rows, highs: Tensor) -> Tensor:
    """Return the place of the highest score of each row, -1 if several are tied.

    `highs` [N, P] are the highest scores of the parts of a row: only the best part is searched.
    """
    count, least = rows.scores.shape[1], rows.best - rows.margin(rows.best)
    width = min(PART, count)
    # The last part may be narrower: then the search begins in the part before.
    start = (highs.argmax(1, keepdim=True) * width).clamp(max=count - width)
    places = start + torch.arange(width, device=start.device)
    near = rows.scores.gather(1, places) >= least
    best = places.gather(1, near.byte().argmax(1, keepdim=True))
    # Elsewhere, only a part whose highest score is near can have another.
    tied = (near.sum(1) > 1) | ((highs >= least).sum(1) > 1)
    return best.squeeze(1).masked_fill(tied, -1)


def _count_above(
    scores: Tensor, bounds: Tensor, least: Tensor, sizes: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return how many of [N, C] scores exceed each of `bounds` [N, R], and reach each of `least`.

    Row n has `sizes[n]` bounds.
    """
    above, reached = (
        torch.zeros(bounds.shape, dtype=torch.int64, device=scores.device) for _ in "12"
    )
    for rows, columns in _pieces(scores):
        x = scores[rows, columns]
        # Results have the dtype of the scores: comparing into bools takes PyTorch five times as
        # long.
        hits = torch.empty_like(x)
        for r in range(max(sizes[rows])):
            above[rows, r] += torch.gt(x, bounds[rows, r, None], out=hits).sum(1).long()
            reached[rows, r] += torch.ge(x, least[rows, r, None], out=hits).sum(1).long()
    return above, reached


def _pieces(scores: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of pieces of [N, C] scores that are contiguous in memory."""
    by_row = scores.stride(0) >= scores.stride(1)
    size = max(1, COMPARED // scores.shape[1 if by_row else 0])
    for start in range(0, scores.shape[0 if by_row else 1], size):
        piece = slice(start, start + size)
        yield (piece, slice(None)) if by_row else (slice(None), piece)


def recall_at(ranks: RightRanks, k: int) -> Tensor:
    """Return the probability that at least one right candidate is in the first k, float64 [N].

    The order of t tied candidates is random: if o of them are right and r places are left for them,
    the probability is 1 - C(t - o, r) / C(t, r).

    Example:
        >>> ranks = right_ranks(torch.tensor([[0.9, 0.5, 0.5, 0.1]]), torch.tensor([[1]]))
        >>> [float(recall_at(ranks, k)) for k in (1, 2, 3)]
        [0.0, 0.5, 1.0]
    """
    better, right_tied = ranks.better[:, 0], ranks.right_tied[:, 0]
    tied, left = ranks.tied[:, 0].double(), (k - better).double()
    left = torch.minimum(left.clamp(min=0), tied)
    # If the right candidates take random places in turn, the i-th takes one of r places of t - i.
    hit = torch.zeros_like(tied)
    for i in range(int(right_tied.max()) if len(tied) else 0):
        gets = (left / (tied - i).clamp(min=1)).clamp(max=1)
        hit += (1 - hit) * torch.where(i < right_tied, gets, 0.0)
    return hit


def first_rank(ranks: RightRanks, most: int, holds: Callable[[NDArray[Any]], bool]) -> int:
    """Return the first rank k, 1 to `most`, at which `holds` is true of recall at k, float64 [N].

    If `holds` is true at a rank, it must be true at all later ranks.

    Example:
        >>> ranks = right_ranks(torch.tensor([[0.9, 0.5, 0.5, 0.1]]), torch.tensor([[1]]))
        >>> first_rank(ranks, 4, lambda recall: recall.mean() == 1)
        3
    """
    return 1 + bisect_left(range(1, most), True, key=lambda k: holds(recall_at(ranks, k).numpy()))


def median_rank(ranks: RightRanks, most: int) -> float:
    """Return the median rank, 1 to `most`, of the best right candidates; ties in random order.

    If recall is exactly 1/2 at a rank, it is the mean of this rank and the first whose recall
    exceeds 1/2.

    Example:
        >>> ranks = right_ranks(torch.tensor([[0.9, 0.5, 0.5, 0.1]]), torch.tensor([[1]]))
        >>> median_rank(ranks, 4)  # 2 or 3, each with probability 1 / 2
        2.5
    """
    reached = first_rank(ranks, most, lambda credit: bool(credit.mean() > 0.5 - ROUNDING))
    exceeded = first_rank(ranks, most, lambda credit: bool(credit.mean() > 0.5 + ROUNDING))
    return (reached + exceeded) / 2


def average_precision(ranks: RightRanks) -> Tensor:
    """Return the average precision of all right candidates, float64 [N] in (0, 1].

    It is the mean over right candidates of the precision at their rank; for ties, its expectation
    over random orders (McSherry and Najork 2008, doi:10.1007/978-3-540-78646-7_38). A right
    candidate among t tied candidates is equally likely at each rank b + j, j = 1..t. Up to this
    rank, the expected number of right candidates is s + 1 plus (j - 1) / (t - 1) of the other o - 1
    right candidates of the tie.

    Example:
        >>> ranks = right_ranks(torch.tensor([[0.9, 0.5, 0.5, 0.1]]), torch.tensor([[1]]))
        >>> round(float(average_precision(ranks)), 4)  # (1 / 2 + 1 / 3) / 2
        0.4167
    """
    better, tied, right_better, right_tied = (x.double() for x in ranks[:4])
    # The sum of 1 / (b + j) over j = 1..t, exact if nothing is tied.
    harmonic = torch.digamma(better + tied + 1) - torch.digamma(better + 1)
    inverse = torch.where(tied == 1, 1 / (better + 1), harmonic)
    others = (right_tied - 1) / (tied - 1).clamp(min=1)
    hits = (right_better + 1) * inverse + others * (tied - (better + 1) * inverse)
    present = ranks.tied > 0
    return (hits / tied.clamp(min=1) * present).sum(1) / present.sum(1)


def ranks_of_chance(candidates: Tensor, right: Tensor) -> RightRanks:
    """Return the ranks of `right` [N] candidates if all `candidates` [N] are tied.

    All right candidates have the same rank, so that each query has one column.

    Example:
        >>> ranks = ranks_of_chance(torch.tensor([4]), torch.tensor([2]))
        >>> [round(float(recall_at(ranks, k)), 4) for k in (1, 2, 3)]  # 2 / 4, 1 - 1 / 6, certain
        [0.5, 0.8333, 1.0]
    """
    none = torch.zeros_like(candidates)
    better, tied, of_right = (x[:, None] for x in (none, candidates, right))
    return RightRanks(better, tied, better, of_right, none - 1, none - 1)


def join_ranks(parts: Sequence[RightRanks]) -> RightRanks:
    """Concatenate the ranks of several blocks of rows."""
    width = max(part.tied.shape[1] for part in parts)
    *counts, first, first_right = zip(*parts, strict=True)
    padded = [[pad(x, (0, width - x.shape[1])) for x in column] for column in counts]
    return RightRanks(*(torch.cat([*x]) for x in (*padded, first, first_right)))


def join_choices(parts: Sequence[Choice]) -> Choice:
    """Concatenate the choices of several blocks of rows."""
    return Choice(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


class _Rows(NamedTuple):
    """Scores [..., C], with the highest score and the largest magnitude of each row, [..., 1]."""

    scores: Tensor
    best: Tensor
    scale: Tensor
    log_odds: bool

    def margin(self, compared: Tensor) -> Tensor:
        """Return the `tie_margin` of the scores [..., 1] of each row."""
        return tie_margin(compared, self.scale, log_odds=self.log_odds)


def _rows(scores: Tensor, candidates: Tensor | None = None, *, log_odds: bool) -> _Rows:
    """Return rows of scores after checking that they are finite; non-candidates become -inf."""
    scores = scores if scores.dtype == torch.float64 else scores.float()
    high = low = scores
    if candidates is not None:
        high, low = (scores.masked_fill(~candidates, x) for x in (-torch.inf, torch.inf))
    best, least = high.amax(-1, keepdim=True), low.amin(-1, keepdim=True)
    # NaN anywhere in a row makes both NaN.
    _refuse(best, least)
    return _Rows(high, best, torch.maximum(best.abs(), least.abs()), log_odds)


def _tied_for_best(rows: _Rows) -> Tensor:
    """Return which scores are tied for the highest of their row, bool [..., C]."""
    return rows.scores >= rows.best - rows.margin(rows.best)


def _choice_of(near: Tensor, tied: Tensor) -> Tensor:
    # As bytes: this takes half the time of the argmax of the scores.
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
        raise ValueError(
            f"the scale of row {row} is {float(scale[row])}; it must be a finite number"
        )


def require_finite(features: Tensor) -> None:
    """Raise ValueError, with the row, for [N, D] numbers that are not all finite.

    Example:
        >>> require_finite(torch.tensor([[1.0], [torch.nan]]))
        Traceback (most recent call last):
        ValueError: row 1 has NaN or infinite values
    """
    bad = (~features.isfinite()).any(1).nonzero()
    if len(bad):
        raise ValueError(f"row {int(bad[0])} has NaN or infinite values")


def all_equal(features: Tensor) -> bool:
    """Return whether two or more rows of [N, D] are equal, within 1e-6 of the largest |x|.

    Raises ValueError for numbers that are not finite.

    Example:
        >>> all_equal(torch.ones(3, 2)), all_equal(torch.tensor([[1.0], [1.1]]))
        (True, False)
    """
    low, high = features.aminmax(dim=0)
    # NaN anywhere in a column makes both NaN, so that no second pass is needed.
    if not (low.isfinite() & high.isfinite()).all():
        require_finite(features)
    largest = torch.maximum(low.abs(), high.abs()).amax()
    return len(features) > 1 and bool((high - low <= TIED * largest).all())


def all_parallel(features: Tensor) -> bool:
    """Return whether all rows of [N, D] are zero, or point the same or the opposite way.

    The condition is that every |cosine| to the first row is within 1e-6 of 1, so that affinities
    are tied. Raises ValueError for numbers that are not finite.

    Example:
        >>> all_parallel(torch.tensor([[1.0, 2.0], [-2.0, -4.0]])), all_parallel(torch.eye(2))
        (True, False)
    """
    require_finite(features)
    from sklearn.preprocessing import normalize  # noqa: PLC0415 - slow to import, for one probe

    unit = normalize(features.double().numpy(), copy=False)
    return bool((np.abs(unit @ unit[0]) >= 1 - TIED).all()) or not unit.any()
