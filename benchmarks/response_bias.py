"""Measure how often the gain over the response bias is right, on planted models.

A model replies by habit to items with k labels: all labels alike, or its favourite label in 70 %,
95 % or all of its replies. It may know the right answers to a fraction of the items. Right answers
are equally frequent, or the favourite label is right in 60 % of the items. There are 120 items:
single, in 40 clusters of 3, or in 15 clusters of 1, 2, ... 15. The items of a cluster share the
right answer, and its habit differs from that of other clusters. The true gain is the known fraction
x (1 - the sum of squared frequencies of right labels). Draws have the seeds 0, 1, 2, ...

Run: python benchmarks/response_bias.py [--draws 1000]
It writes its table into docs/simulations.md.
"""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import NamedTuple

import numpy as np
from coverage import write_table

from vlbench.metrics.response_bias import Bias, ReplyLabels, response_bias

Random = np.random.Generator

ITEMS, FIRST_IS_RIGHT, KNOWN = 120, 0.6, 0.3
LEVEL, PERMUTATIONS = 0.05, 199

# The fraction of replies that are the favourite label; 0: all labels alike.
HABITS = {"all labels alike": 0.0, "70 % one label": 0.7, "95 % one label": 0.95, "always one": 1.0}

# The sizes of clusters.
SIZES: Mapping[str, Sequence[int]] = {
    "single items": [1] * ITEMS,
    "clusters of 3": [3] * (ITEMS // 3),
    "15 clusters of 1 to 15": range(1, 16),
}

# A cluster's habit is drawn from a Dirichlet distribution with so many replies in mind.
CONCENTRATION = 2.0


class World(NamedTuple):
    """A fraction of known answers, a habit, and the labels and clusters of items."""

    known: float
    habit: str
    labels: int
    balanced: bool
    items: str

    @property
    def name(self) -> str:
        """What is planted, without the number of labels."""
        knows = f"knows {self.known:.0%}, else " if self.known else ""
        frequent = "balanced" if self.balanced else f"favourite right in {FIRST_IS_RIGHT:.0%}"
        return f"{knows}{self.habit}; {frequent}; {self.items}"

    @property
    def frequencies(self) -> np.ndarray:
        """How often each label is right."""
        if self.balanced:
            return np.full(self.labels, 1 / self.labels)
        others = (1 - FIRST_IS_RIGHT) / (self.labels - 1)
        return np.array([FIRST_IS_RIGHT] + [others] * (self.labels - 1))

    @property
    def gain(self) -> float:
        """The true gain."""
        return float(self.known * (1 - (self.frequencies**2).sum()))


def worlds() -> Iterator[World]:
    """Yield all worlds."""
    for known, habit, balanced, items in product((0.0, KNOWN), HABITS, (True, False), SIZES):
        for labels in (2, 3, 4, 5):
            yield World(known, habit, labels, balanced, items)


def draw(world: World, rng: Random) -> ReplyLabels:
    """Return the replies of a planted model to new items."""
    k, sizes = world.labels, SIZES[world.items]
    clusters = len(sizes)
    cluster = np.repeat(np.arange(clusters), sizes)
    right = rng.choice(k, clusters, p=world.frequencies)[cluster]
    share = HABITS[world.habit]
    habit = np.full(k, (1 - share) / (k - 1)) if share else np.full(k, 1 / k)
    habit[0] = share or habit[0]
    of_cluster = np.tile(habit, (clusters, 1))
    if clusters < ITEMS and share < 1:
        of_cluster = rng.dirichlet(CONCENTRATION * habit, clusters)
    by_habit = (rng.random((ITEMS, 1)) > of_cluster.cumsum(1)[cluster, :-1]).sum(1)
    label = np.where(rng.random(ITEMS) < world.known, right, by_habit)
    none, options = np.zeros(ITEMS, int), np.full(ITEMS, k)
    is_right = np.eye(k, dtype=bool)[right]
    return ReplyLabels(np.arange(ITEMS), label, is_right, options, none, cluster, none)


def estimate(world: World, seed: int) -> Bias:
    """Return what a draw of a world gives."""
    rng = np.random.default_rng(seed)
    found = response_bias(draw(world, rng), seed=seed, permutations=PERMUTATIONS)
    assert found is not None
    return found


class Rates(NamedTuple):
    """Of draws: intervals that contain the true gain, p <= .05, and mean balanced accuracy."""

    covers: float
    small: float
    balanced: float


def rates(world: World, draws: int) -> Rates:
    """Return how often the interval and the p of a world are right."""
    several = [estimate(world, seed) for seed in range(draws)]
    ends = np.array([one.gain.ci95 for one in several])
    covers = (ends[:, 0] <= world.gain) & (world.gain <= ends[:, 1])
    small = np.mean([one.p <= LEVEL for one in several])
    balanced = [one.balanced.value for one in several if one.balanced]
    mean = float(np.mean(balanced)) if balanced else math.nan
    return Rates(float(covers.mean()), float(small), mean)


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    lines = ["| world, k = 2, 3, 4, 5 | interval has the gain | p <= .05 | balanced accuracy |"]
    lines.append("|---|---|---|---|")
    for name, several in groupby(worlds(), lambda world: world.name):
        by_column = zip(*(rates(world, draws) for world in several), strict=True)
        columns = [", ".join(f"{100 * value:.1f}" for value in column) for column in by_column]
        lines.append(f"| {name} | {' | '.join(f'{column}%' for column in columns)} |")
        print(lines[-1], flush=True)
    write_table(lines)


if __name__ == "__main__":
    main()
