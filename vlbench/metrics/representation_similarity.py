"""Similarity of two representations of the same examples: debiased CKA and mutual neighbours.

Linear CKA (Kornblith et al. 2019, arXiv:1905.00414) with the unbiased estimator of HSIC of Song et
al. 2012, as in Nguyen et al. 2021, arXiv:2010.15327: with few examples of many dimensions, the
biased estimator is near 1 for any two representations. Mutual k-nearest neighbours: Huh et al.
2024, arXiv:2405.07987. Representations are [N, D]. CKA is computed in float64, as are neighbours
whose order float32 does not decide.

Over all permutations of the rows of x or y, the mean of debiased CKA is exactly 0, because centred
kernels sum to 0, and the mean of mutual neighbours is k / (N - 1). Intervals come from a jackknife
over blocks of examples: a bootstrap would make copies of an example its nearest neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from vlbench.errors import TooFewRows, counted
from vlbench.metrics.intervals import (
    ROUNDING,
    Estimate,
    jackknife_variance,
    plain_ends,
    student_quantile,
    unvaried,
)
from vlbench.metrics.ranking import TIED, require_finite
from vlbench.system.threads import threads_for

# HSIC has a factor 1 / (n - 3).
FEWEST = 4

# Similarities computed at a time.
BLOCK = 1 << 20

# Candidates compared beyond the k nearest.
MORE = 8

# Most examples whose neighbours are tried for ties.
MOST_TRIED = 1_000

# Sums that cancel to less than this fraction of their terms are 0.
ROUNDED = 1e-12


def cka_debiased(x: Tensor, y: Tensor) -> float:
    """Return the debiased linear CKA of [N, D1] and [N, D2], -1..1.

    It is 0 if all examples of a representation are equal, or all equally far apart. Raises
    TooFewRows for fewer than 4 examples, ValueError if x and y have different numbers of examples,
    and for values that are not finite.

    Example:
        >>> x, y = torch.tensor([[1], [1], [-1], [-1]]), torch.tensor([[1], [-1], [1], [-1]])
        >>> round(cka_debiased(x, -3 * x), 4)
        1.0
        >>> round(cka_debiased(x, y), 4)  # their kernels are as (2, -1, -1) and (-1, 2, -1)
        -0.5
    """
    return float(cka_left_out(x, y, [])[0])


def cka_left_out(x: Tensor, y: Tensor, blocks: Sequence[Tensor]) -> Tensor:
    """Return the debiased CKA of all examples, then without each of G blocks, float64 [1 + G].

    A block is int64 [n], numbers of rows.

    Example:
        >>> x, y = torch.tensor([[1, 1, -1, -1, 9]]).T, torch.tensor([[1, -1, 1, -1, 7]]).T
        >>> values = cka_left_out(x, y, [torch.tensor([4])])
        >>> list(values.shape), round(float(values[1]), 4)  # as for `cka_debiased`
        ([2], -0.5)
    """
    kept = _kept_rows(x, y, blocks, FEWEST)
    x, y = _centred(x), _centred(y)
    kernels = {id(side): _product(side, side.T) for side in (x, y) if len(side) < side.shape[1]}
    pairs = [(x, y), (x, x), (y, y)]
    both, own_x, own_y = (
        _hsic_of_kernels(kernels[id(a)], kernels[id(b)], kept)
        if len(a) < min(a.shape[1], b.shape[1])
        else _hsic_of_features(a, b, blocks, kept)
        for a, b in pairs
    )
    scale = (own_x * own_y).sqrt()
    return torch.where(scale > 0, both / scale, 0.0).clamp(-1.0, 1.0)


def centred_kernel(x: Tensor) -> Tensor:
    """Return the linear kernel of [N, D] without its diagonal, condensed, [N (N - 1) / 2].

    [N, D] is first centred, and scaled to a Frobenius norm of 1. The rows of the kernel sum to 0,
    as in the estimator of Song et al. 2012, so that the debiased CKA of two representations is the
    correlation of their kernels. It is all 0 if the debiased CKA with any representation is 0.
    Raises TooFewRows for fewer than 4 examples.

    Example:
        >>> kernel = centred_kernel(torch.tensor([[1], [1], [-1], [-1]]))
        >>> [round(value, 4) for value in kernel.tolist()]  # 4 / 3 and -2 / 3, by a norm^2 of 4
        [0.3333, -0.1667, -0.1667, -0.1667, -0.1667, 0.3333]
    """
    _kept_rows(x, x, [], FEWEST)
    n, x = len(x), _centred(x)
    kernel = _product(x, x.T)
    whole = kernel.norm()
    sums = kernel.fill_diagonal_(0.0).sum(1)
    kernel = kernel - (sums[:, None] + sums) / (n - 2) + sums.sum() / (n - 1) / (n - 2)
    condensed = kernel[tuple(torch.triu_indices(n, n, 1))]
    return condensed if condensed.norm() > TIED * whole else torch.zeros_like(condensed)


def mutual_knn(x: Tensor, y: Tensor, k: int) -> float:
    """Return the mean fraction of an example's k nearest neighbours that x and y share, 0..1.

    Nearness is cosine similarity. If t examples are as near as the k-th, within 1e-6, and r places
    are left, each is a neighbour with probability r / t, independently in x and y. The value is the
    expected fraction, which is at chance if all are tied. Raises TooFewRows if an example has k
    others or fewer.

    Example:
        >>> x = torch.tensor([[1, 0], [5, 1], [0, 1], [-1, 5]])  # nearest: rows 1, 0, 3 and 2
        >>> y = torch.tensor([[1, 0], [5, 1], [1, 1], [0, 1]])  # rows 1, 0, 1 and 2
        >>> mutual_knn(x, x, 1), mutual_knn(x, y, 1)
        (1.0, 0.75)
    """
    return float(mutual_knn_left_out(x, y, k, [])[0])


def mutual_knn_left_out(x: Tensor, y: Tensor, k: int, blocks: Sequence[Tensor]) -> Tensor:
    """Return the mutual neighbours of all examples, then without each of G blocks, [1 + G].

    Example:
        >>> x = torch.tensor([[1, 0], [5, 1], [0, 1], [-1, 5]])
        >>> y = torch.tensor([[1, 0], [5, 1], [1, 1], [0, 1]])
        >>> mutual_knn_left_out(x, y, 1, [torch.tensor([2])]).tolist()  # row 3: then 1 in both
        [0.75, 1.0]
    """
    if k < 1:
        raise ValueError(f"k {k}: must be 1 or more")
    kept = _kept_rows(x, y, blocks, k + 2)
    units = [torch.nn.functional.normalize(side.double(), eps=0.0).nan_to_num() for side in (x, y)]
    rounded = [unit.float() for unit in units]
    sums = torch.zeros(len(kept), dtype=torch.float64)
    for rows in torch.split(torch.arange(len(x)), max(1, BLOCK // len(x))):
        (near_x, share_x), (near_y, share_y) = (
            _neighbours(*of_one, rows, kept, k) for of_one in zip(units, rounded, strict=True)
        )
        # The place of each candidate of x among the candidates of y; a place past the end if
        # absent.
        place = torch.full((len(rows), len(x) + 1), near_y.shape[1])
        place.scatter_(1, near_y, torch.arange(near_y.shape[1]).expand_as(near_y))
        place = place.gather(1, near_x)
        for i, (a, b) in enumerate(zip(share_x, share_y, strict=True)):
            both = a * torch.nn.functional.pad(b, (0, 1)).gather(1, place)
            sums[i] += (both.sum(1) * kept[i, rows]).sum()
    return sums / k / kept.sum(1)


def tied_neighbours(x: Tensor, k: int) -> float:
    """Return how many of the first 1,000 of [N, D] examples have tied k-th neighbours, 0..1.

    Vectors of a large mean have cosines near 1, which differ by less than the margin of ties.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [3.0, 0.1]])
        >>> tied_neighbours(x, 1), tied_neighbours(x[:3], 1)  # row 0 is orthogonal to both others
        (0.0, 0.3333333333333333)
    """
    unit = torch.nn.functional.normalize(x.double(), eps=0.0).nan_to_num()
    rows, kept = torch.arange(min(len(x), MOST_TRIED)), torch.ones(1, len(x), dtype=torch.bool)
    _, share = _neighbours(unit, unit.float(), rows, kept, k)
    return float(((share[0] > 0) & (share[0] < 1)).any(1).double().mean())


def calibrated(value: float, null: float) -> float:
    """Return (value - null) / (1 - null), where null is a mean under chance; 0 for a null of 1.

    Example:
        >>> calibrated(0.75, 0.5)
        0.5
    """
    return (value - null) / (1 - null) if null < 1 else 0.0


def draw_blocks(n: int, blocks: int, rng: np.random.Generator) -> list[Tensor]:
    """Return n rows in random blocks, int64 each, whose sizes differ by 1 at most.

    Raises TooFewRows for fewer than two rows per block, ValueError for fewer than two blocks.

    Example:
        >>> blocks = draw_blocks(5, 2, np.random.default_rng(0))
        >>> [len(block) for block in blocks], sorted(torch.cat(blocks).tolist())
        ([3, 2], [0, 1, 2, 3, 4])
    """
    if blocks < 2:
        raise ValueError(f"{blocks} blocks; an interval needs 2 or more")
    if n < 2 * blocks:
        raise TooFewRows(f"{counted(n, 'example')} for {blocks} blocks", 2 * blocks)
    return [torch.from_numpy(rows) for rows in np.array_split(rng.permutation(n), blocks)]


def block_jackknife(values: Sequence[float], n: int, least: float, greatest: float) -> Estimate:
    """Return the estimate of a statistic of n examples from [1 + G] values of `*_left_out`.

    The interval uses Student's t with G - 1 degrees of freedom. If no block changes the value, the
    fraction `unseen` of examples may be at either end of its range.

    Example:
        >>> estimate = block_jackknife([0.5, 0.4, 0.6], 10, 0.0, 1.0)
        >>> round(estimate.stderr, 4), [round(end, 3) for end in estimate.ci95]  # 12.706 * 0.1
        (0.1, [-0.771, 1.771])
    """
    value, less = float(values[0]), np.asarray(values[1:], np.float64)
    stderr = math.sqrt(jackknife_variance(less))
    if stderr < ROUNDING:
        return unvaried(value, n, least, greatest)
    return Estimate(value, stderr, plain_ends(value, stderr, student_quantile(len(less) - 1)))


def _kept_rows(x: Tensor, y: Tensor, blocks: Sequence[Tensor], least: int) -> Tensor:
    """Return masks of all rows, then of the rows without each block, bool [1 + G, N]."""
    if len(x) != len(y):
        raise ValueError(f"{len(x)} and {len(y)} rows; both must be of the same examples")
    require_finite(x)
    require_finite(y)
    kept = torch.ones(1 + len(blocks), len(x), dtype=torch.bool)
    for row, block in zip(kept[1:], blocks, strict=True):
        row[block] = False
    fewest = int(kept.sum(1).amin())
    if fewest < least:
        raise TooFewRows(f"{counted(fewest, 'example')} to compare, {least} needed", least)
    return kept


def _centred(x: Tensor) -> Tensor:
    """Return [N, D] minus its mean, with a norm of 1; all 0 if it is constant within 1e-6."""
    x = x.double()
    scale = float(x.abs().amax()) or 1.0
    x = x / scale
    norm, x = x.norm(), x - x.mean(0)
    size = x.norm()
    return x / size if size > TIED * norm else torch.zeros_like(x)


def _product(x: Tensor, y: Tensor) -> Tensor:
    """Return the matrix product of [N, D] and [D, M]; a large product uses all threads."""
    with threads_for(*x.shape, y.shape[1]):
        return x @ y


def _hsic_of_features(x: Tensor, y: Tensor, blocks: Sequence[Tensor], kept: Tensor) -> Tensor:
    """Return n (n - 3) HSIC of all rows and without each block, from products [D1, D2]."""
    whole, values = _product(x.T, y), []
    norms = [torch.einsum("nd,nd->n", side, side) for side in (x, y)]
    totals = [side.sum(0) for side in (x, y)]
    for rows, block in zip(kept, [torch.arange(0), *blocks], strict=True):
        n = int(rows.sum())
        means = [(total - one[block].sum(0)) / n for total, one in zip(totals, (x, y), strict=True)]
        product = whole - _product(x[block].T, y[block]) - n * torch.outer(*means)
        first, second = (
            (norm - 2 * (side @ mean) + mean @ mean)[rows]
            for norm, side, mean in zip(norms, (x, y), means, strict=True)
        )
        # The rows of a centred kernel sum to 0, so that without the diagonal they sum to its
        # negative.
        values.append(_hsic(product.square().sum(), first, second, -first, -second))
    return torch.stack(values)


def _hsic_of_kernels(x: Tensor, y: Tensor, kept: Tensor) -> Tensor:
    """Return n (n - 3) HSIC of all rows and without each block, from kernels [N, N]."""
    masks = kept.double()
    traces = (_product(masks, x * y) * masks).sum(1)
    own_x, own_y = x.diagonal(), y.diagonal()
    sums = [_product(masks, side) - side.diagonal() for side in (x, y)]
    return torch.stack(
        [
            _hsic(trace, *(vector[rows] for vector in (own_x, own_y, *both)))
            for trace, rows, *both in zip(traces, kept, *sums, strict=True)
        ]
    )


def _hsic(trace: Tensor, own_x: Tensor, own_y: Tensor, sums_x: Tensor, sums_y: Tensor) -> Tensor:
    """Return n (n - 3) HSIC (Song et al. 2012, eq. 5); 0 if it is only rounding.

    Arguments: the trace of the product of two kernels, their diagonals [n], and the sums of their
    rows without the diagonals [n].
    """
    n = len(own_x)
    diagonal, crossed = own_x @ own_y, 2 / (n - 2) * (sums_x @ sums_y)
    value = trace - diagonal + sums_x.sum() * sums_y.sum() / (n - 1) / (n - 2) - crossed
    return torch.where(value.abs() > ROUNDED * (trace.abs() + diagonal), value, 0.0)


def _neighbours(
    unit: Tensor, rounded: Tensor, rows: Tensor, kept: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Return the M nearest other rows of some rows, int64 [B, M], and neighbour probabilities.

    Probabilities are [1 + G, B, M]: among all rows, and without each block. M is large enough to
    include all possible neighbours; N stands for no row. `rounded` is `unit` in float32. If float32
    does not separate the k-th neighbour from the next, the k + MORE nearest are compared again in
    float64; if more rows may be tied, or most rows of the block need it, all rows are.
    """
    similarity = _product(rounded[rows], rounded.T)
    similarity[torch.arange(len(rows)), rows] = -torch.inf
    # Bound of the error of a float32 product of unit vectors, in any order of summation (Higham
    # 2002, 3.1): a rounding per dimension and per vector, and two more to be safe.
    roundings = unit.shape[1] + 4
    error = roundings / (2**24 - roundings)
    values, near = _nearest(similarity, k + MORE)
    here = kept[:, near]
    so_far = here.cumsum(2)
    gap = _value_of(k, values, so_far) - _value_of(k + 1, values, so_far)
    close = ~((so_far[..., -1:] > k) & (gap > TIED + 2 * error)).all(0).squeeze(1)
    # Gathering vectors for most rows would take more time and memory than whole products. The bound
    # does not hold either if products may use fewer bits than float32.
    is_bounded = torch.get_float32_matmul_precision() == "highest"
    many = (close & (2 * close.sum() > len(rows))) | (not is_bounded)
    close &= ~many
    rest, values = values[:, -1:].double() + error, values.double()
    exact = (unit[near[close]] @ unit[rows[close], :, None]).squeeze(2)
    values[close], order = exact.sort(descending=True)
    near[close] = near[close].gather(1, order)
    share, is_final = _probabilities(values, near, rest, kept, k)
    is_final &= ~many
    if not is_final.all():
        wide, share_of_wide = _many_neighbours(unit, rows[~is_final], kept, k)
        more = (0, wide.shape[1] - near.shape[1])
        near = torch.nn.functional.pad(near, more, value=len(unit))
        share = torch.nn.functional.pad(share, more)
        near[~is_final], share[:, ~is_final] = wide, share_of_wide
    return near, share


def _many_neighbours(unit: Tensor, rows: Tensor, kept: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the same as `_neighbours`, computed in float64 only."""
    similarity = _product(unit[rows], unit.T)
    similarity[torch.arange(len(rows)), rows] = -torch.inf
    count, is_final = k + MORE, torch.zeros(())
    while not is_final.all():
        count *= 2
        values, near = _nearest(similarity, count)
        share, is_final = _probabilities(values, near, values[:, -1:], kept, k)
    return near, share


def _nearest(similarity: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the greatest similarities to other rows, and their columns, [B, M]."""
    return similarity.topk(min(count, similarity.shape[1] - 1))


def _probabilities(
    values: Tensor, near: Tensor, rest: Tensor, kept: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Return neighbour probabilities of [B, M] candidates, [1 + G, B, M], and if they are final.

    The latter is bool [B]. The similarity of a row that is no candidate is at most `rest` [B, 1].
    """
    here = kept[:, near]
    so_far = here.cumsum(2)
    last = _value_of(k, values, so_far)
    is_final = ((so_far[..., -1:] >= k) & (rest < last - TIED)).all(0).squeeze(1)
    nearer, level = here & (values > last + TIED), here & ((values - last).abs() <= TIED)
    left = k - nearer.sum(2, keepdim=True)
    share = nearer + level * (left.double() / level.sum(2, keepdim=True))
    return share, is_final | (near.shape[1] == kept.shape[1] - 1)


def _value_of(n: int, values: Tensor, so_far: Tensor) -> Tensor:
    """Return the n-th of the counted values, [1 + G, B, 1]."""
    return values.expand(so_far.shape).gather(2, (so_far >= n).int().argmax(2, keepdim=True))
