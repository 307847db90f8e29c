"""What a preference for a letter, or an answer, earns: replies dealt to the items at random.

Items are compared within strata: items of one category with equally many options. In a stratum, the
response bias is the sum over options of P(replied) x P(right), the agreement by chance of Cohen
1960 (doi:10.1177/001316446002000104): what the same replies earn on average if they are dealt to
the items at random. A constant reply earns exactly its response bias, whatever is right most often.

Options are labels as shown to the model, such as letters; an unread reply is a label of its own. An
item that was asked in several orders counts once, with the mean over its replies.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.metrics.intervals import (
    Z95,
    Estimate,
    Floats,
    jackknife_variance,
    plain_ends,
    student_quantile,
    wilson,
)

# The name of the floor.
FLOOR = "response_bias"

# A stratum with fewer items, or fewer clusters, is left out.
LEAST_ITEMS, LEAST_CLUSTERS = 10, 2

# A smaller variance is the rounding of equal numbers.
NOTHING = 1e-20

# At least this many permutations, and this many for each test that Holm's rule is over.
PERMUTATIONS, FOR_EACH_TEST = 1999, 20

# Replies that are permuted at once.
AT_ONCE = 500_000

Ints = NDArray[np.intp]


class ReplyLabels(NamedTuple):
    """The labels in M replies to N items, and the labels that are right.

    `item` int [M] has the item of each reply; the replies to one item are in the same order for all
    items. `label` int [M] is -1 for an unread reply. `right` bool [M, L] has the right labels, of
    which a reply's item has `options` int [N]. `texts` int [N] is equal for items whose labels are
    the same, `category` int [N] that of the item, and `cluster` int [N] counts from 0.
    """

    item: Ints
    label: Ints
    right: NDArray[np.bool_]
    options: Ints
    category: Ints
    cluster: Ints
    texts: Ints

    def select(self, items: NDArray[np.bool_]) -> ReplyLabels:
        """Return the replies to some of the items."""
        kept, numbers = items[self.item], np.cumsum(items) - 1
        _, cluster = np.unique(self.cluster[items], return_inverse=True)
        return ReplyLabels(
            numbers[self.item[kept]],
            self.label[kept],
            self.right[kept],
            self.options[items],
            self.category[items],
            cluster,
            self.texts[items],
        )


class Bias(NamedTuple):
    """The response bias of replies, and what is above it.

    `gain` is the accuracy minus the bias; `kappa` is gain / (1 - bias), None if the bias is 1;
    `balanced` is the mean recall over right options, None if an option is never right, or an item
    has several. `p` is one-sided, by permuted replies or by the jackknife. `n` counts items.
    """

    bias: float
    gain: Estimate
    kappa: Estimate | None
    balanced: Estimate | None
    p: float
    p_by: Literal["permutations", "jackknife"]
    n: int
    chance: float


class _Sums(NamedTuple):
    """Sums over the items of each stratum.

    `whole` [S, 4] are over all items of a stratum. `less` [P, 4] are over its items outside one
    cluster, for each of P pairs of a `stratum` and a `cluster`, [P]. Columns are items, hits, bias
    x items, and mean recall x items.
    """

    whole: Floats
    less: Floats
    stratum: Ints
    cluster: Ints


def strata_of(replies: ReplyLabels) -> Ints:
    """Return the stratum of each item, int [N] from 0; -1 in strata that are left out.

    A stratum is left out if it has fewer than 10 items or 2 clusters.

    Example:
        >>> one, none = np.arange(15), np.zeros(15, int)
        >>> options = np.array([2] * 10 + [3] * 5)  # ten items of two options, five of three
        >>> said = ReplyLabels(one, none, np.eye(3, dtype=bool)[none], options, none, one, none)
        >>> strata_of(said).tolist()
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1]
    """
    keys = np.stack([replies.category, replies.options, replies.texts], 1)
    _, stratum = np.unique(keys, axis=0, return_inverse=True)
    stratum = stratum.reshape(-1)
    items = np.bincount(stratum)
    pairs = np.unique(np.stack([stratum, replies.cluster], 1), axis=0)
    clusters = np.bincount(pairs[:, 0], minlength=len(items))
    kept = (items >= LEAST_ITEMS) & (clusters >= LEAST_CLUSTERS)
    renamed = np.where(kept, np.cumsum(kept) - 1, -1)
    return renamed[stratum]


def bias_of_items(replies: ReplyLabels) -> Floats:
    """Return what the replies of its stratum earn on average on each item, float64 [N].

    NaN in strata that are left out. The mean over the items of a stratum is its response bias.

    Example:
        >>> one, right = np.arange(10), np.eye(2, dtype=bool)[[0] * 6 + [1] * 4]
        >>> none, two = np.zeros(10, int), np.full(10, 2)
        >>> said = ReplyLabels(one, np.array([0] * 5 + [1] * 5), right, two, none, one, none)
        >>> bias_of_items(said).tolist()  # half of the replies are each label
        [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    weights, stratum = _weights(replies), strata_of(replies)
    of_reply = stratum[replies.item]
    count = int(stratum.max(initial=-1)) + 1
    by_label = np.zeros((count + 1, replies.right.shape[1] + 1))
    np.add.at(by_label, (of_reply, replies.label), weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        fractions = by_label / by_label.sum(1, keepdims=True)
    earned = (replies.right * fractions[of_reply][:, :-1]).sum(1)
    mean = np.bincount(replies.item, weights * earned, len(stratum))
    return np.where(stratum >= 0, mean, np.nan)


def response_bias(
    replies: ReplyLabels,
    *,
    macro: bool = False,
    tests: int = 1,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
) -> Bias | None:
    """Return the response bias of replies and the gain over it; None without a stratum.

    With `macro`, each category counts alike, otherwise each item. The interval leaves out each
    cluster once (jackknife), so that it accounts for the bias estimated from the same items, with
    Student's quantile of as many degrees of freedom as fit the kurtosis over clusters; a gain that
    never varies gets plus and minus Wilson's upper end for none of the clusters. The p is over
    random `permutations` of the replies of clusters with equally many items in each stratum, and
    within each cluster, at least 20 for each of the `tests` that Holm's rule is over; if there are
    fewer distinct permutations of clusters, it is the jackknife's.

    Example:
        >>> one, right = np.arange(10), np.eye(2, dtype=bool)[[0] * 6 + [1] * 4]
        >>> none, two = np.zeros(10, int), np.full(10, 2)
        >>> always = ReplyLabels(one, none, right, two, none, one, none)  # always the first label
        >>> found = response_bias(always)
        >>> found.bias, found.gain.value, found.balanced.value, found.p
        (0.6, 0.0, 0.5, 1.0)
    """
    stratum = strata_of(replies)
    if stratum.max(initial=-1) < 0:
        return None
    kept = stratum >= 0
    sums = _sums(replies, stratum)
    category = np.zeros(len(sums.whole), np.intp)
    category[stratum[kept]] = replies.category[kept] if macro else 0
    _, group = np.unique(category, return_inverse=True)
    whole, less = _by_group(sums, group)
    clusters = len(np.unique(replies.cluster[kept]))
    bias, of_bias = whole[2], less[:, 2]
    gain = _estimate(whole[1] - bias, less[:, 1] - of_bias, clusters)
    freedom = _freedom(less[:, 1] - of_bias)
    kappa = None
    if bias < 1 and (of_bias < 1).all():
        of_less = (less[:, 1] - of_bias) / (1 - of_bias)
        kappa = _estimate((whole[1] - bias) / (1 - bias), of_less, clusters)
    balanced = None
    if math.isfinite(whole[3]):
        balanced = _estimate(whole[3], less[:, 3], clusters, floor=0.0)
    of_item = np.zeros(len(stratum))
    sizes = np.bincount(group[stratum[kept]])
    of_item[kept] = 1 / sizes[group[stratum[kept]]] / len(sizes)
    least = FOR_EACH_TEST * tests
    p, p_by = _p(replies, stratum, of_item, gain, freedom, least, permutations, seed)
    chance = float(of_item[kept] @ (1 / replies.options[kept]))
    return Bias(float(bias), gain, kappa, balanced, p, p_by, int(kept.sum()), chance)


def _weights(replies: ReplyLabels) -> Floats:
    """Return the weight of each reply, 1 / the number of replies to its item."""
    return 1 / np.bincount(replies.item, minlength=len(replies.cluster))[replies.item]


def _sums(replies: ReplyLabels, stratum: Ints) -> _Sums:
    """Return the sums of strata, with and without each cluster."""
    of_reply, weights = stratum[replies.item], _weights(replies)
    kept = of_reply >= 0
    pair = np.stack([of_reply, replies.cluster[replies.item]], 1)[kept]
    pairs, place = np.unique(pair, axis=0, return_inverse=True)
    place, labels = place.reshape(-1), replies.right.shape[1] + 1
    label, w = replies.label[kept], weights[kept]
    right = np.pad(replies.right[kept], ((0, 0), (0, 1)))
    counts = np.zeros((3, len(pairs), labels))
    np.add.at(counts[0], (place, label), w)
    np.add.at(counts[1], place, right * w[:, None])
    np.add.at(counts[2], (place, label), w * right[np.arange(len(label)), label])
    count = int(pairs[:, 0].max()) + 1
    totals = np.zeros((3, count, labels))
    for total, part in zip(totals, counts, strict=True):
        np.add.at(total, pairs[:, 0], part)
    one_is_right = np.ones(count, bool)
    np.logical_and.at(one_is_right, of_reply[kept], right.sum(1) == 1)
    options = np.zeros(count)
    options[of_reply[kept]] = replies.options[replies.item][kept]
    whole = _quantities(totals, options, one_is_right)
    rest = totals[:, pairs[:, 0]] - counts
    less = _quantities(
        rest, options[pairs[:, 0]], one_is_right[pairs[:, 0]], totals[1][pairs[:, 0]]
    )
    return _Sums(whole, less, pairs[:, 0], pairs[:, 1])


def _quantities(
    counts: Floats, options: Floats, one_is_right: NDArray[np.bool_], truth: Floats | None = None
) -> Floats:
    """Return items, hits, bias x items and mean recall x items, float64 [S, 4].

    `counts` [3, S, L] are replies, right answers and hits by label. The mean recall is NaN if one
    of the options is never right in `truth` [S, L], by default these counts.
    """
    said, right, hits = np.round(counts, 9)
    items = said.sum(1)
    bias = (said * right).sum(1) / items
    are_right = ((right if truth is None else truth) > 0).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        recall = np.where(right > 0, hits / right, np.nan)
    mean = np.nanmean(recall, 1)
    mean = np.where(one_is_right & (are_right == options), mean, np.nan)
    return np.stack([items, hits.sum(1), bias, mean * items], 1)


def _by_group(sums: _Sums, group: Ints) -> tuple[Floats, Floats]:
    """Return the mean over groups of strata of the quantities per item, [4], and less a cluster.

    The latter is [C, 4] for C clusters.
    """
    count = int(group.max()) + 1
    whole = np.zeros((count, 4))
    np.add.at(whole, group, sums.whole)
    change = sums.less - sums.whole[sums.stratum]
    pair = np.stack([group[sums.stratum], sums.cluster], 1)
    pairs, place = np.unique(pair, axis=0, return_inverse=True)
    rest = whole[pairs[:, 0]].copy()
    np.add.at(rest, place.reshape(-1), change)
    means = whole / whole[:, :1]
    _, cluster = np.unique(pairs[:, 1], return_inverse=True)
    less = np.zeros((int(cluster.max()) + 1, 4))
    with np.errstate(invalid="ignore", divide="ignore"):
        quantities = np.where(rest[:, :1] > 0, rest / rest[:, :1], means[pairs[:, 0]])
    np.add.at(less, cluster, (quantities - means[pairs[:, 0]]) / count)
    mean = means.mean(0)
    return mean, mean + less


def _estimate(value: float, less: Floats, clusters: int, floor: float = -1.0) -> Estimate:
    """Return a value with the jackknife's interval; see `response_bias` if nothing varies."""
    variance, value = jackknife_variance(less), float(value)
    if variance < NOTHING:
        end = wilson(0, clusters).ci95[1]
        ends = max(value - end, floor), min(value + end, 1.0)
        return Estimate(value, end / Z95, ends)
    stderr = math.sqrt(variance)
    return Estimate(value, stderr, plain_ends(value, stderr, student_quantile(_freedom(less))))


def _freedom(less: Floats) -> float:
    """Return the degrees of freedom of the jackknife's variance, at least 1.

    They are Satterthwaite's (1946), 2 E[v]^2 / Var[v], for the excess kurtosis of the values [C]
    without each cluster. Few clusters matter if they are uneven, or if few replies break a habit.
    """
    squares, n = (less - less.mean()) ** 2, len(less)
    if squares.mean() < NOTHING:
        return n - 1
    kurtosis = max(float((squares**2).mean() / squares.mean() ** 2) - 3, 0.0)
    return max(2 / (2 / (n - 1) + kurtosis / n), 1.0)


def _p(
    replies: ReplyLabels,
    stratum: Ints,
    of_item: Floats,
    gain: Estimate,
    freedom: float,
    least: int,
    permutations: int,
    seed: int,
) -> tuple[float, Literal["permutations", "jackknife"]]:
    """Return the one-sided p of a gain above 0, and how it was found; items have weights [N]."""
    if _is_constant(replies, stratum):
        return 1.0, "permutations"
    units = _units(replies, stratum, of_item)
    distinct = sum(map(_log_distinct, units))
    if distinct < math.log(least):
        from scipy.special import stdtr  # noqa: PLC0415 - planning a run must not wait for it

        return float(stdtr(freedom, -gain.value / gain.stderr)), "jackknife"
    draws, rng = max(permutations, least), np.random.default_rng(seed)
    hits, observed = np.zeros(draws), 0.0
    for unit in units:
        observed += float(unit.earned(unit.label[None])[0])
        rows, step = np.arange(len(unit.label)), max(AT_ONCE // unit.label.size, 1)
        for start in range(0, draws, step):
            part = hits[start : start + step]
            orders = rng.permuted(np.tile(rows, (len(part), 1)), axis=1)
            part += unit.earned(unit.shuffled(unit.label[orders], rng))
    as_many = int((hits >= observed - 1e-9).sum())
    return (1 + as_many) / (draws + 1), "permutations"


class _Unit(NamedTuple):
    """Clusters whose replies may be exchanged: labels [U, R], right labels [U, R, L], weights.

    Replies to one item have equal numbers in `item` [R], items that may be exchanged in `kind` [R].
    """

    label: Ints
    right: NDArray[np.bool_]
    weight: Floats
    item: Ints
    kind: Ints

    def shuffled(self, label: Ints, rng: np.random.Generator) -> Ints:
        """Return labels [B, U, R] with the items of each cluster, and their replies, in any order.

        If every cluster has its right labels in one order, exchanged clusters earn the same.
        """
        if len(self.item) == 1:
            return label
        items = rng.random((*label.shape[:2], self.item[-1] + 1))[..., self.item]
        order = np.lexsort((rng.random(label.shape), items + self.kind), axis=-1)
        return np.take_along_axis(label, order, -1)

    def earned(self, label: Ints) -> Floats:
        """Return the weighted hits of labels [B, U, R], float64 [B]."""
        rows, replies = self.label.shape
        place = np.arange(rows)[:, None], np.arange(replies)[None]
        hits = self.right[(*place, label)] @ self.weight[0]
        earned: Floats = hits.sum(-1)
        return earned


def _is_constant(replies: ReplyLabels, stratum: Ints) -> bool:
    """Return whether each stratum has a single label in all replies."""
    of_reply = stratum[replies.item]
    pairs = np.unique(np.stack([of_reply, replies.label], 1)[of_reply >= 0], axis=0)
    return len(pairs) == len(np.unique(pairs[:, 0]))


def _units(replies: ReplyLabels, stratum: Ints, of_item: Floats) -> list[_Unit]:
    """Return clusters by their signature: the strata of their items and the numbers of replies."""
    kept = np.flatnonzero(stratum[replies.item] >= 0)
    sizes, of_reply = np.bincount(replies.item, minlength=len(stratum)), replies.item[kept]
    key = (np.arange(len(kept)), of_reply, sizes[of_reply], stratum[of_reply])
    order = kept[np.lexsort((*key, replies.cluster[of_reply]))]
    cluster = replies.cluster[replies.item[order]]
    starts = np.flatnonzero(np.diff(cluster)) + 1
    item = replies.item[order]
    signatures = np.split(np.stack([stratum[item], sizes[item]], 1), starts)
    alike: dict[bytes, list[Ints]] = {}
    for signature, places in zip(signatures, np.split(order, starts), strict=True):
        alike.setdefault(signature.tobytes(), []).append(places)
    weights, units = _weights(replies) * of_item[replies.item], list[_Unit]()
    right = np.pad(replies.right, ((0, 0), (0, 1)))
    for group in alike.values():
        rows = np.stack(group)
        item = replies.item[rows[0]]
        is_next = np.diff(item, prepend=item[0]) != 0
        is_other = np.diff([stratum[item], sizes[item]], prepend=0).any(0)
        numbers = is_next.cumsum(), is_other.cumsum()
        units.append(_Unit(replies.label[rows], right[rows], weights[rows], *numbers))
    return units


def _log_distinct(unit: _Unit) -> float:
    """Return the logarithm of the number of distinct permutations."""
    same = Counter(row.tobytes() for row in unit.label)
    return math.lgamma(len(unit.label) + 1) - sum(math.lgamma(n + 1) for n in same.values())
