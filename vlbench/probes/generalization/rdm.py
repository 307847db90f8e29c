"""Representational dissimilarity matrices over classes. Kriegeskorte et al. 2008.

doi:10.3389/neuro.06.004.2008. A matrix is condensed: the C (C - 1) / 2 distances above its
diagonal, row by row, float64. For each class, m is the mean and s the standard deviation (ddof 0)
of its n feature vectors, each of length one:

`scalar`          |m_i - m_j| / sqrt(s_i^2 / n_i + s_j^2 / n_j), s over all entries of the class, as
                  in the code of arXiv:2104.08313
`per_dimension`   the same with s per dimension, as in the paper's text (section 4)
`cosine`, `correlation`   1 - r of m_i and m_j
`euclidean`       |v_i - v_j|, if a class has one vector

The distance of vectors closer than 1e-6 of their length is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from vlbench.errors import TooFewRows, counted
from vlbench.metrics.ranking import TIED
from vlbench.system.threads import threads_for

CLASS_RULES = ("scalar", "per_dimension", "cosine", "correlation")
VECTOR_RULES = ("euclidean", "cosine", "correlation")

# Added to the deviation of each dimension, as in the paper's code, because some dimensions are
# constant.
DEVIATION_FLOOR = 1e-6

# Rows of the matrix computed at a time.
ROWS = 128

# Pairs of classes in a block of the matrix per dimension, for each thread.
BLOCK = 1 << 16

# Most dimensions whose terms are summed in float32: larger sums would lose digits.
DIMENSIONS = 16


def rdm_of_classes(
    features: Tensor, rows: Sequence[Tensor], names: Sequence[str], rule: str
) -> Tensor:
    """Return the condensed matrix of classes whose images are `rows` [n] of [N, D] features.

    Features are divided by their length; a vector of length zero stays zero. A class of one image
    has a scalar deviation, over its entries, but no deviation per dimension. Raises TooFewRows,
    with the class, if it has too few images; ValueError for two classes with zero deviation, for a
    zero mean, and for another rule.
    """
    _refuse(rule, CLASS_RULES)
    least = 2 if rule == "per_dimension" else 1
    for row, name in zip(rows, names, strict=True):
        if len(row) < least:
            present = (
                f"class '{name}' has {counted(len(row), 'image')}, {least} needed for '{rule}'"
            )
            raise TooFewRows(present, least * len(names))
    by_dimension = rule == "per_dimension"
    means, errors = _moments(features, rows, by_dimension=by_dimension)
    if rule in {"cosine", "correlation"}:
        return _angles(means, names, rule, 1.0)
    if by_dimension:
        with threads_for(len(means), *means.shape):
            return _by_dimension(means, errors)
    return _by_class(squared_distances(means, 1.0), errors, names)


def rdm_of_vectors(vectors: Tensor, names: Sequence[str], rule: str) -> Tensor:
    """Return the condensed matrix of [C, D] vectors, one per class.

    Raises ValueError for a vector without a direction, and for another rule.
    """
    _refuse(rule, VECTOR_RULES)
    points = vectors.double()
    scale = float(points.square().sum(1).amax())
    if rule == "euclidean":
        return squared_distances(points, scale).sqrt_()
    return _angles(points, names, rule, scale**0.5)


def squared_distances(points: Tensor, scale: float) -> Tensor:
    """Return |p_i - p_j|^2 of [C, D] points as a condensed matrix, float64.

    They are computed as |p_i|^2 + |p_j|^2 - 2 p_i p_j of centred points, with a rounding error of
    about 1e-16 of the largest |p|^2, which depends on the blocks of rows. Distances below 1e-12 of
    `scale`, the largest |v|^2 of the original vectors, are 0.
    """
    # Centring loses only the digits that the points have in common.
    centred = points - points.mean(0)
    lengths = torch.linalg.vector_norm(centred, dim=1).square_()
    above: list[Tensor] = []
    # Only blocks above or on the diagonal are multiplied.
    for first in range(0, len(centred), ROWS):
        rows = slice(first, first + ROWS)
        block = torch.addmm(lengths[first:], centred[rows], centred[first:].T, alpha=-2)
        block += lengths[rows, None]
        above += [row[i:] for i, row in enumerate(block, 1)]
    squares = torch.cat(above)
    return squares.masked_fill_(squares <= TIED**2 * scale, 0.0)


def _moments(
    features: Tensor, rows: Sequence[Tensor], *, by_dimension: bool
) -> tuple[Tensor, Tensor]:
    """Return the means [C, D] of classes, and s^2 / n, as a scalar [C] or per dimension [C, D]."""
    size, counts = (len(rows), features.shape[1]), torch.tensor([len(row) for row in rows])
    means = torch.empty(size, dtype=torch.float64)
    errors = torch.empty(size if by_dimension else 0, dtype=torch.float64)
    norms = torch.zeros(len(rows), int(counts.amax()), dtype=torch.float64)
    for i, block in enumerate(_blocks(features, rows)):
        norm = torch.linalg.vector_norm(block, dim=1, out=norms[i, : len(block)])
        inverse = norm.reciprocal().masked_fill_(norm == 0, 0.0)
        mean = torch.mv(block.T, inverse, out=means[i]).div_(len(block))
        if by_dimension:
            # Two passes over cached memory take a tenth of the time of `std`, and are as exact.
            torch.addcmul(-mean, block, inverse[:, None], out=block).square_()
            variance = torch.mv(block.T, torch.ones_like(norm)).div_(len(block))
            errors[i] = variance.sqrt_().add_(DEVIATION_FLOOR).square_().div_(len(block))
    if by_dimension:
        return means, errors
    # The squares of a vector of length 1 sum to 1, so no second pass is needed.
    square = norms.count_nonzero(1) / (counts * size[1]).double()
    variance = square - means.mean(1).square()
    return means, variance.masked_fill(variance <= TIED**2 * square, 0.0) / counts


def _blocks(features: Tensor, rows: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the features of each class, float64 [n, D], in the same memory, which stays cached."""
    counts = [len(row) for row in rows]
    drawn = features.new_empty((max(counts), features.shape[1]))
    block = torch.empty_like(drawn, dtype=torch.float64)
    parts: Iterable[Tensor]
    # Images sorted by class are read in place, which saves a copy.
    if torch.equal(torch.cat([*rows]), torch.arange(sum(counts))):
        parts = features[: sum(counts)].split_with_sizes(counts)
    else:
        parts = (torch.index_select(features, 0, row, out=drawn[: len(row)]) for row in rows)
    for part in parts:
        yield block[: len(part)].copy_(part)


def _by_class(squares: Tensor, errors: Tensor, names: Sequence[str]) -> Tensor:
    sums = torch.cat([errors[i + 1 :] + error for i, error in enumerate(errors)])
    if (errors == 0).any():
        undefined = ((sums == 0) & (squares > 0)).nonzero()
        if len(undefined):
            i, j = torch.triu_indices(len(errors), len(errors), 1)[:, int(undefined[0])].tolist()
            raise ValueError(
                f"classes '{names[i]}' and '{names[j]}' differ and have zero deviation; use the "
                "rule 'cosine'"
            )
        sums.masked_fill_(squares == 0, 1.0)
    return squares.div_(sums).sqrt_()


def _by_dimension(means: Tensor, errors: Tensor) -> Tensor:
    """Return the distances, summed dimension by dimension in blocks of rows that stay cached.

    Terms are float32, which halves the time, and are computed from centred means, so that their
    error is at most the rounding of float32 features. Their sums are float64.
    """
    above: list[Tensor] = []
    first, size = 0, BLOCK * torch.get_num_threads()
    moments = [moment.float().T.contiguous() for moment in (means - means.mean(0), errors)]
    while first < len(means):
        rest = len(means) - first
        rows = min(max(1, size // rest), rest)
        sums, (part, gaps, scales) = means.new_zeros(rows, rest), torch.zeros(3, rows, rest)
        columns = [moment[:, first:] for moment in moments]
        parts = [column[:, :rows, None] for column in columns]
        for i, (mean, error, own_mean, own_error) in enumerate(zip(*columns, *parts, strict=True)):
            torch.sub(mean, own_mean, out=gaps).square_()
            torch.add(error, own_error, out=scales)
            if i % DIMENSIONS:
                part.addcdiv_(gaps, scales)
            else:
                sums += part
                torch.div(gaps, scales, out=part)
        sums += part
        above += [row[i:] for i, row in enumerate(sums, 1)]
        first += rows
    rdm = torch.cat(above)
    # Means that count as equal have a sum of at most half of this.
    if (rdm <= TIED**2 / errors.amin()).any():
        rdm.masked_fill_(squared_distances(means, 1.0) == 0, 0.0)
    return rdm.sqrt_()


def _angles(points: Tensor, names: Sequence[str], rule: str, scale: float) -> Tensor:
    """Return 1 - cosine, or 1 - r, of pairs: half the squared distance of vectors of length one.

    In float64 the error is at most 2e-15. In float32, as in thingsvision, this is 2.7 times faster,
    but for near vectors no digits are left: 1 - r is as small as the rounding of r.
    """
    points = points - points.mean(1, keepdim=True) if rule == "correlation" else points
    norms = points.norm(dim=1, keepdim=True)
    short = (norms[:, 0] <= TIED * scale).nonzero()
    if len(short):
        raise ValueError(f"class '{names[int(short[0])]}' has a vector without a {rule}")
    return squared_distances(points / norms, 1.0).div_(2)


def _refuse(rule: str, rules: Sequence[str]) -> None:
    if rule not in rules:
        raise ValueError(f"no rule '{rule}' for a matrix; there are {', '.join(rules)}")
