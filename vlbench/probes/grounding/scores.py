"""Scores of heads: the best head, the best active head, the best per layer, and every head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.errors import counted
from vlbench.metrics.intervals import Estimate, clustered_fraction, clustered_fractions
from vlbench.metrics.ranking import TIED
from vlbench.probes.grounding.attention import COUNTED, HeadSums
from vlbench.probes.grounding.measures import JUDGED, MEASURES, STATS
from vlbench.results import Score

Floats = NDArray[np.float64]

# A head is active if more than this fraction of its attention, on average, goes to the image.
ACTIVE = 0.2

# If there are more scores, the scores of layers or heads are only in the table.
MOST_SCORES = 200

COLUMNS = (*COUNTED, *STATS)

# Names of scores under heads chosen on the other half of the images, if not the measure's name.
SPLIT_HALF = {"accuracy": "split_half_accuracy"}

# Choices that ignore the word: a working head should beat them.
FLOORS = ("random_region", "largest_region", "most_confident_region")

# The chance level of each measure: a random region, a random column, and uniform attention.
CHANCE = {
    "accuracy": "random_region",
    "pointing_accuracy": "random_pointing",
    "attention_on_gold": "even_attention",
}


class Halves(NamedTuple):
    """The credit of each image under the head that the other half chose, and the heads."""

    credit: Floats  # [images]
    judges: list[list[int]]  # heads tied for the best of the other half, per image


def split_half(credit: Floats, sizes: Floats, *, seed: int = 0) -> Halves:
    """Return each image's credit if each half of the images chooses the head for the other half.

    `credit` [images, K] are sums over an image's items, `sizes` [images] the number of items;
    images without items belong to no half. If heads are tied for the best of a half, an image of
    the other half earns their mean credit. Raises ValueError if fewer than two images have items.
    """
    images = np.flatnonzero(sizes > 0)
    if len(images) < 2:
        raise ValueError(f"{counted(len(images), 'image')} with items; two halves need two")
    order = np.random.default_rng(seed).permutation(images)
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    earned = np.zeros(len(sizes))
    judges: list[list[int]] = [[] for _ in sizes]
    for choosing, judged in (halves, halves[::-1]):
        best = best_heads(credit[choosing].sum(0))
        earned[judged] = credit[judged][:, best].mean(1)
        for image in judged:
            judges[image] = best
    return Halves(earned, judges)


def best_heads(credit: Floats) -> list[int]:
    """Return the heads with the highest of [K] credits; heads within 1e-6 of it are tied."""
    most = credit.max()
    best: list[int] = np.flatnonzero(credit >= most - TIED * abs(most)).tolist()
    return best


@dataclass(frozen=True)
class QueryGroup:
    """The sums of a group of queries, per image, and the conditions `at` of its scores."""

    number: int
    at: Mapping[str, str]
    measures: Mapping[str, Floats]  # [images, layers x heads]
    stats: Mapping[str, Floats]  # [images]
    shape: tuple[int, int]  # layers, heads
    whole: bool
    has_scores: bool
    seed: int

    @property
    def sizes(self) -> Floats:
        """The number of queries of each image."""
        return self.stats["n"]

    @property
    def n(self) -> int:
        """The number of queries."""
        return round(float(self.sizes.sum()))

    def mean(self, name: str) -> float:
        """Return the mean of a statistic over all queries."""
        return float(self.stats[name].sum() / self.sizes.sum())

    @cached_property
    def accuracies(self) -> list[Estimate]:
        """Each head's fraction of right choices."""
        return clustered_fractions(self.measures["accuracy"], self.sizes)

    @property
    def attention(self) -> Floats:
        """Each head's mean attention to the image, over words with a token."""
        mean: Floats = self.measures["attention"].sum(0) / max(self.stats["read"].sum(), 1)
        return mean

    @property
    def active(self) -> NDArray[np.bool_] | None:
        """Which heads are active; None if the attention does not show it."""
        return self.attention > ACTIVE if self.whole else None

    @cached_property
    def halves(self) -> dict[str, Halves]:
        """The halves of each measure; each half of the images chooses the head for the other.

        Empty if only one image has queries.
        """
        if np.count_nonzero(self.sizes) < 2:
            return {}
        return {m: split_half(self.measures[m], self.sizes, seed=self.seed) for m in JUDGED}

    @property
    def best(self) -> int:
        """The first head among the heads that are right most often."""
        return best_heads(self.measures["accuracy"].sum(0))[0]

    @property
    def best_active(self) -> int | None:
        """The first of the best active heads; None if no head is active, or this is unknown."""
        if self.active is None or not self.active.any():
            return None
        right = np.where(self.active, self.measures["accuracy"].sum(0), -np.inf)
        return best_heads(right)[0]

    def named(self, head: int) -> str:
        """Return the name LAYER-HEAD of a head, both numbered from 0."""
        return "{}-{}".format(*divmod(head, self.shape[1]))


def groups_of(
    sums: HeadSums, conditions: Sequence[Mapping[str, str]], seed: int
) -> list[QueryGroup]:
    """Return the groups that have queries, each with the conditions of its scores."""
    layers, heads = sums.heads.shape[2:4]
    return [
        QueryGroup(
            number=g,
            at=at,
            measures={
                name: sums.heads[:, g, :, :, m].astype(np.float64).reshape(len(sums.heads), -1)
                for m, name in enumerate(MEASURES)
            },
            stats={name: sums.stats[:, g, c] for c, name in enumerate(COLUMNS)},
            shape=(layers, heads),
            whole=sums.whole,
            has_scores=sums.has_scores,
            seed=seed,
        )
        for g, at in enumerate(conditions)
        if sums.stats[:, g, 0].any()
    ]


def scores_of(groups: Sequence[QueryGroup]) -> list[Score]:
    """Return the scores of all groups; scores of layers, then of heads, only if 200 or fewer."""
    scores = [score for group in groups for score in _summary(group)]
    for detail in (_layers, _heads):
        more = [score for group in groups for score in detail(group)]
        scores += more if len(scores) + len(more) <= MOST_SCORES else []
    return scores


def head_table(groups: Sequence[QueryGroup]) -> Any:
    """Return a table with a row for every head of every group."""
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    return pa.Table.from_pylist([row for group in groups for row in _rows(group)])


def _summary(group: QueryGroup) -> Iterable[Score]:
    """Yield the scores over all layers."""
    # Unlike the best head of all, a head chosen on other images is not biased upwards.
    for measure, halves in group.halves.items():
        estimate = clustered_fraction(halves.credit, group.sizes)
        yield _score(group, SPLIT_HALF.get(measure, measure), estimate, measure)
    right = group.accuracies
    yield _score(group, "best_head_accuracy", right[group.best])
    if group.best_active is not None:
        yield _score(group, "best_active_head_accuracy", right[group.best_active])
    bound = clustered_fraction(group.stats["upper_bound"], group.sizes)
    why = "an upper bound: how often a right region is among the choices"
    yield Score("upper_bound", at=dict(group.at), n=group.n, no_chance=why, **bound._asdict())


def _layers(group: QueryGroup) -> Iterable[Score]:
    """Yield the accuracy of the best head of each layer."""
    right = group.measures["accuracy"].sum(0).reshape(group.shape)
    for layer, heads in enumerate(right):
        best = group.accuracies[layer * group.shape[1] + best_heads(heads)[0]]
        yield _score(group, "layer_accuracy", best, layer=layer)


def _heads(group: QueryGroup) -> Iterable[Score]:
    for i, accuracy in enumerate(group.accuracies):
        layer, head = divmod(i, group.shape[1])
        yield _score(group, "head_accuracy", accuracy, layer=layer, head=head)


def _score(
    group: QueryGroup, metric: str, estimate: Estimate, measure: str = "accuracy", **at: int
) -> Score:
    names = [name for name in FLOORS if group.has_scores or name != "most_confident_region"]
    floors = {name: group.mean(name) for name in names} if measure == "accuracy" else {}
    chance = group.mean(CHANCE[measure])
    return Score(
        metric=metric,
        at={**group.at, **at},
        n=group.n,
        chance=chance,
        floors=floors,
        **estimate._asdict(),
    )


def _rows(group: QueryGroup) -> Iterable[dict[str, Any]]:
    columns = {name: group.measures[name].sum(0) / group.sizes.sum() for name in JUDGED}
    attention, active = group.attention, group.active
    for i, accuracy in enumerate(group.accuracies):
        layer, head = divmod(i, group.shape[1])
        yield {
            **group.at,
            "layer": layer,
            "head": head,
            **{name: float(values[i]) for name, values in columns.items()},
            "ci95_low": accuracy.ci95[0],
            "ci95_high": accuracy.ci95[1],
            "attention": float(attention[i]),
            "active": None if active is None else bool(active[i]),
            "n": group.n,
        }
