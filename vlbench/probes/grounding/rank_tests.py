"""Rank tests of `ablation`: the drop without some heads among the drops without random heads.

`vlbench.probes.grounding.ablation` states the populations, and the rule of the verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import chain
from math import comb, factorial, prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vlbench.errors import counted
from vlbench.metrics.gains import rank_p
from vlbench.metrics.items import Measured
from vlbench.metrics.paired import holm
from vlbench.results import Score

# A layer, and a head of the layer.
Head = tuple[int, int]
Heads = tuple[Head, ...]
Drawn = TypeVar("Drawn", bound=Hashable)
Random = np.random.Generator

# A test whose p is at most this is a finding.
LEVEL = 0.05


class RankTest(NamedTuple):
    """The sets of heads whose largest drop is ranked, and random draws of equally many sets."""

    cut: str
    parts: Sequence[Heads]
    random: Sequence[Sequence[Heads]]

    def rank(self, drop_of: Callable[[Heads], float]) -> Ranked:
        """Return the largest drop of the parts and of each draw; `drop_of` returns one drop."""
        random = [max(map(drop_of, sets)) for sets in self.random]
        return Ranked(self.cut, max(map(drop_of, self.parts)), random)


class Ranked(NamedTuple):
    """The largest drop of the parts of a test, and of each draw."""

    cut: str
    drop: float
    random: Sequence[float]

    @property
    def p(self) -> float:
        """The rank among the draws."""
        return rank_p(self.drop, self.random)

    @property
    def least_p(self) -> float:
        """The smallest p that so many draws can give."""
        return 1 / (len(self.random) + 1)

    @property
    def has_enough_draws(self) -> bool:
        """Whether there are enough draws for p <= LEVEL."""
        return self.least_p <= LEVEL


def rank_tests(
    heads: Sequence[int], each: Sequence[str], best: Sequence[Head], draws: int, seed: int
) -> list[RankTest]:
    """Return the tests of the largest layer and of the best heads, if they are ablated."""
    tests = [layers_test(heads_by_layer(heads), draws, seed)] if "layer" in each else []
    return tests + ([best_heads_test(best, heads, draws, seed)] if best else [])


def heads_by_layer(heads: Sequence[int]) -> list[Heads]:
    """Return the heads of each layer, from the number of heads in each layer."""
    return [tuple((layer, head) for head in range(count)) for layer, count in enumerate(heads)]


def layers_test(layers: Sequence[Heads], draws: int, seed: int) -> RankTest:
    """Return the test of the layer with the largest drop."""
    every, sizes = [*chain(*layers)], [*map(len, layers)]
    same_sizes = prod(map(factorial, Counter(sizes).values()))
    population = factorial(len(every)) // prod(map(factorial, sizes)) // same_sizes

    def divide(rng: Random) -> tuple[Heads, ...]:
        shuffled = iter(rng.permutation(len(every)).tolist())
        return tuple(sorted(tuple(sorted(every[next(shuffled)] for _ in part)) for part in layers))

    actual = tuple(sorted(layers))
    return RankTest("largest layer", actual, other_draws(actual, divide, population, draws, seed))


def best_heads_test(best: Sequence[Head], heads: Sequence[int], draws: int, seed: int) -> RankTest:
    """Return the test of the best heads of a model with so many `heads` in each layer."""
    sizes = sorted(Counter(layer for layer, _ in best).items())
    population = prod(comb(heads[layer], size) for layer, size in sizes)

    def draw(rng: Random) -> Heads:
        drawn = [(i, rng.choice(heads[i], size, replace=False).tolist()) for i, size in sizes]
        return tuple((layer, head) for layer, some in drawn for head in sorted(some))

    actual = tuple(sorted(best))
    random = other_draws(actual, draw, population, draws, seed)
    return RankTest("best heads", [actual], [[some] for some in random])


def other_draws(
    actual: Drawn, draw: Callable[[Random], Drawn], population: int, draws: int, seed: int
) -> list[Drawn]:
    """Return distinct draws other than `actual`: as many as `draws`, or all others there are."""
    rng, drawn = np.random.default_rng(seed), {actual: None}
    while len(drawn) < min(draws + 1, population):
        drawn[draw(rng)] = None
    return [*drawn][1:]


def adjusted(ranked: Sequence[Ranked]) -> list[float]:
    """Return p of each test, by Holm's rule over the tests with enough draws."""
    enough = [test for test in ranked if test.has_enough_draws]
    p_values = holm([test.p for test in enough])
    by_cut = {test.cut: p for test, p in zip(enough, p_values, strict=True)}
    return [by_cut.get(test.cut, test.p) for test in ranked]


def family_size(test: Ranked, ranked: Sequence[Ranked]) -> int:
    """Return the number of tests over which Holm's rule adjusts the p of a test; 1: itself only."""
    return sum(other.has_enough_draws for other in ranked) if test.has_enough_draws else 1


def verdicts_by_cut(ranked: Sequence[Ranked]) -> dict[str, str]:
    """Return the verdict of each test: finding, no finding or no verdict."""
    verdicts = {}
    for test, p in zip(ranked, adjusted(ranked), strict=True):
        is_open = test.least_p * family_size(test, ranked) > LEVEL
        verdicts[test.cut] = "no verdict" if is_open else "finding" if p <= LEVEL else "no finding"
    return verdicts


def with_verdicts(drops: Sequence[Measured], ranked: Sequence[Ranked]) -> list[Measured]:
    """Return drops without a direction, and with the verdict and p of the test of their part."""
    verdicts: dict[Any, str] = verdicts_by_cut(ranked)
    for test, p in zip(ranked, adjusted(ranked), strict=True):
        verdicts[test.cut] += f", p {p:.3f}" if test.random else ""

    def with_verdict(score: Score) -> Score:
        return replace(score, higher_is_better=None, verdict=verdicts.get(score.at["cut"], ""))

    return [drop._replace(score=with_verdict(drop.score)) for drop in drops]


def notes_of_tests(ranked: Sequence[Ranked]) -> list[str]:
    """Return a note of each test: the drop, the drops of random draws, p, and the verdict."""
    notes = []
    for test, p in zip(ranked, adjusted(ranked), strict=True):
        if not test.random:
            notes.append(f"{test.cut}: compared with no random heads, so that there is no verdict")
            continue
        tests = family_size(test, ranked)
        verdict = "more than random heads" if p <= LEVEL else "not more than random heads"
        if test.least_p * tests > LEVEL:
            verdict = f"no verdict, since p cannot be below {test.least_p * tests:.3f}"
        rule = f" by Holm's rule over {tests} tests" if tests > 1 else ""
        notes.append(
            f"{test.cut}: drop of {100 * test.drop:.1f} points; random heads, "
            f"{counted(len(test.random), 'draw')}: mean {100 * np.mean(test.random):.1f}, largest "
            f"{100 * max(test.random):.1f}; p = {p:.3f}{rule}: {verdict}"
        )
    return notes


def p_scores(ranked: Sequence[Ranked], n: int) -> list[Score]:
    """Return the adjusted p of each test that has draws, as scores of `n` items."""
    verdicts = verdicts_by_cut(ranked)
    return [
        Score(
            "p_of_drop",
            p,
            n,
            {"cut": test.cut},
            unit="probability",
            higher_is_better=None,
            no_chance="a p-value: a drop with p <= 0.05 is a finding",
            verdict=verdicts[test.cut],
        )
        for test, p in zip(ranked, adjusted(ranked), strict=True)
        if test.random
    ]
