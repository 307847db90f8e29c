"""Scores of heads: the best of all, of those that look at the image, of each layer, and each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vlbench.metrics.heads import best_heads, split_half
from vlbench.metrics.statistics import Estimate, bootstrap_shares
from vlbench.probes.grounding.attention import COUNTED, MEASURES, Tally
from vlbench.probes.grounding.targets import STATS
from vlbench.results import Score

Floats = NDArray[np.float64]

# A head looks at the image where more than this of its attention goes there, on average.
ACTIVE = 0.2

# More scores than these go to the table of all heads alone.
MOST_SCORES = 200

COLUMNS = (*COUNTED, *STATS)

# Choices that look at no word: what a working head should beat.
FLOORS = ("random_region", "largest_region", "most_confident_region")

# The chance level of each measure: a random region, a random column, even attention.
CHANCE = {
    "accuracy": "random_region",
    "pointing_accuracy": "random_pointing",
    "attention_on_gold": "even_attention",
}


@dataclass(frozen=True)
class Group:
    """The heads of one group of queries, their sums by image, and what is said of each."""

    number: int
    at: Mapping[str, str]
    measures: Mapping[str, Floats]  # [images, layers x heads]
    stats: Mapping[str, Floats]  # [images]
    shape: tuple[int, int]  # layers, heads
    whole: bool
    confident: bool
    seed: int

    @property
    def sizes(self) -> Floats:
        """The number of queries of each image."""
        return self.stats["n"]

    @property
    def n(self) -> int:
        """The number of queries."""
        return round(float(self.sizes.sum()))

    def share(self, name: str) -> float:
        """Return the mean over all queries of a statistic."""
        return float(self.stats[name].sum() / self.sizes.sum())

    @cached_property
    def accuracies(self) -> list[Estimate]:
        """Each head's share of right choices."""
        return bootstrap_shares(self.measures["accuracy"], self.sizes, seed=self.seed)

    @property
    def attention(self) -> Floats:
        """Each head's mean attention to the image, over the words that have a token."""
        mean: Floats = self.measures["attention"].sum(0) / max(self.stats["read"].sum(), 1)
        return mean

    @property
    def active(self) -> NDArray[np.bool_] | None:
        """Which heads look at the image; None where the attention cannot tell."""
        return self.attention > ACTIVE if self.whole else None

    @property
    def best(self) -> int:
        """The lowest of the heads that are right most often."""
        return best_heads(self.measures["accuracy"].sum(0))[0]

    @property
    def best_active(self) -> int | None:
        """The lowest of the best active heads; None where there are none, or none is known."""
        if self.active is None or not self.active.any():
            return None
        right = np.where(self.active, self.measures["accuracy"].sum(0), -np.inf)
        return best_heads(right)[0]

    def named(self, head: int) -> str:
        """Return layer-head, both counted from 0."""
        return "{}-{}".format(*divmod(head, self.shape[1]))


def groups_of(seen: Tally, conditions: Sequence[Mapping[str, str]], seed: int) -> list[Group]:
    """Return the groups that have queries, with the conditions of their scores."""
    layers, heads = seen.heads.shape[2:4]
    return [
        Group(
            number=g,
            at=at,
            measures={
                name: seen.heads[:, g, :, :, m].astype(np.float64).reshape(len(seen.heads), -1)
                for m, name in enumerate(MEASURES)
            },
            stats={name: seen.stats[:, g, c] for c, name in enumerate(COLUMNS)},
            shape=(layers, heads),
            whole=seen.whole,
            confident=seen.confident,
            seed=seed,
        )
        for g, at in enumerate(conditions)
        if seen.stats[:, g, 0].any()
    ]


def scores_of(groups: Sequence[Group]) -> list[Score]:
    """Return the scores of all groups: those of layers, then of heads, as far as 200 allow."""
    found = [score for group in groups for score in _summary(group)]
    for detail in (_layers, _heads):
        more = [score for group in groups for score in detail(group)]
        found += more if len(found) + len(more) <= MOST_SCORES else []
    return found


def head_table(groups: Sequence[Group]) -> pa.Table:
    """Return every head of every group: a row each."""
    return pa.Table.from_pylist([row for group in groups for row in _rows(group)])


def _summary(group: Group) -> Iterable[Score]:
    """Yield the scores that need no layer."""
    if np.count_nonzero(group.sizes) > 1:
        # Better than the best head of all images: what is chosen on other images is no luck.
        for name, measure in (
            ("split_half_accuracy", "accuracy"),
            ("pointing_accuracy", "pointing_accuracy"),
            ("attention_on_gold", "attention_on_gold"),
        ):
            earned = split_half(group.measures[measure], group.sizes, seed=group.seed).credit
            (found,) = bootstrap_shares(earned[:, None], group.sizes, seed=group.seed)
            yield _score(group, name, found, measure)
    right = group.accuracies
    yield _score(group, "best_head_accuracy", right[group.best])
    if group.best_active is not None:
        yield _score(group, "best_active_head_accuracy", right[group.best_active])
    (bound,) = bootstrap_shares(group.stats["upper_bound"][:, None], group.sizes, seed=group.seed)
    yield Score(metric="upper_bound", at=dict(group.at), n=group.n, **bound._asdict())


def _layers(group: Group) -> Iterable[Score]:
    """Yield the accuracy of the best head of each layer."""
    right = group.measures["accuracy"].sum(0).reshape(group.shape)
    for layer, heads in enumerate(right):
        best = group.accuracies[layer * group.shape[1] + best_heads(heads)[0]]
        yield _score(group, "layer_accuracy", best, layer=layer)


def _heads(group: Group) -> Iterable[Score]:
    for i, found in enumerate(group.accuracies):
        layer, head = divmod(i, group.shape[1])
        yield _score(group, "head_accuracy", found, layer=layer, head=head)


def _score(
    group: Group, metric: str, found: Estimate, measure: str = "accuracy", **at: int
) -> Score:
    known = [name for name in FLOORS if group.confident or name != "most_confident_region"]
    floors = {name: group.share(name) for name in known} if measure == "accuracy" else {}
    chance = group.share(CHANCE[measure])
    return Score(
        metric=metric,
        at={**group.at, **at},
        n=group.n,
        chance=chance,
        floors=floors,
        **found._asdict(),
    )


def _rows(group: Group) -> Iterable[dict[str, Any]]:
    named = ("accuracy", "pointing_accuracy", "attention_on_gold")
    columns = {name: group.measures[name].sum(0) / group.sizes.sum() for name in named}
    attention, active = group.attention, group.active
    for i, found in enumerate(group.accuracies):
        layer, head = divmod(i, group.shape[1])
        yield {
            **group.at,
            "layer": layer,
            "head": head,
            **{name: float(values[i]) for name, values in columns.items()},
            "ci95_low": found.ci95[0],
            "ci95_high": found.ci95[1],
            "attention": float(attention[i]),
            "active": None if active is None else bool(active[i]),
            "n": group.n,
        }
