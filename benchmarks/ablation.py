"""Measure how often p_of_drop of `ablation` is at most .05, on planted heads.

A head has an effect on the log-odds of a right answer, and the accuracy without some heads is the
fraction of right answers to a number of items, drawn anew for each set. Heads are exchangeable if
their effects are independent and equally distributed: then nothing is to be found, whichever heads
are ablated, and p should be at most .05 in 5 % of the worlds. Sets and draws are those of the probe
itself. Each world has the seed of its number.

Run: python benchmarks/ablation.py [--worlds 1000]
It writes its table into docs/simulations.md.
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from coverage import write_table

from vlbench.probes.grounding.rank_tests import (
    LEVEL,
    Head,
    Heads,
    Random,
    Ranked,
    RankTest,
    adjusted,
    best_heads_test,
    layers_test,
)

LAYERS, HEADS, DRAWS, ITEMS = 12, 12, 79, 560
EASE, EFFECT = 2.0, 0.1
BY_LAYER = [tuple((layer, head) for head in range(HEADS)) for layer in range(LAYERS)]
EVERY = [head for layer in BY_LAYER for head in layer]
COLUMNS = ["finding of `ablation`", "null and planted truth", "worlds", "p <= .05"]

Effects = dict[Head, float]
World = Callable[[Random, int], tuple[Effects, list[RankTest]]]


def exchangeable(rng: Random) -> Effects:
    """Return effects of heads that are independent and equally distributed."""
    return dict(zip(EVERY, rng.exponential(EFFECT, len(EVERY)).tolist(), strict=True))


def blind(rng: Random, count: int) -> list[Head]:
    """Return random heads."""
    return [EVERY[i] for i in rng.choice(len(EVERY), count, replace=False).tolist()]


def best(
    rng: Random, seed: int, count: int, more: Sequence[float] = ()
) -> tuple[Effects, list[RankTest]]:
    """Return the test of heads drawn blindly, the first of which have so much `more` effect."""
    effects, own = exchangeable(rng), blind(rng, count)
    for head, added in zip(own, more, strict=False):
        effects[head] += added
    return effects, [best_heads_test(own, [HEADS] * LAYERS, DRAWS, seed)]


def of_unequal_layers(rng: Random, seed: int) -> tuple[Effects, list[RankTest]]:
    """Return the test of heads drawn blindly if layers differ in the effects of their heads."""
    effects, scale = exchangeable(rng), rng.exponential(1, LAYERS)
    scaled = {(layer, i): effect * scale[layer] for (layer, i), effect in effects.items()}
    return scaled, [best_heads_test(blind(rng, 2), [HEADS] * LAYERS, DRAWS, seed)]


def largest(rng: Random, seed: int, more: float = 0.0) -> tuple[Effects, list[RankTest]]:
    """Return the test of the largest layer if each head of one layer has `more` effect."""
    effects = exchangeable(rng)
    for head in BY_LAYER[int(rng.integers(LAYERS))]:
        effects[head] += more
    return effects, [layers_test(BY_LAYER, DRAWS, seed)]


def both(rng: Random, seed: int) -> tuple[Effects, list[RankTest]]:
    """Return both tests of a row, whose p Holm's rule adjusts."""
    effects, tests = best(rng, seed, 2)
    return effects, [*tests, layers_test(BY_LAYER, DRAWS, seed)]


WORLDS: dict[tuple[str, str], World] = {
    ("2 best heads", "exchangeable heads"): lambda rng, seed: best(rng, seed, 2),
    ("12 best heads", "exchangeable heads"): lambda rng, seed: best(rng, seed, 12),
    ("2 best heads", "exchangeable within layers, layers differ"): of_unequal_layers,
    ("largest layer", "exchangeable heads"): largest,
    ("2 best heads or largest layer, by Holm's rule", "exchangeable heads"): both,
    ("2 best heads", "both cost 0.3 logits more"): (
        lambda rng, seed: best(rng, seed, 2, [0.3, 0.3])
    ),
    ("2 best heads", "one costs 1 logit more"): lambda rng, seed: best(rng, seed, 2, [1.0]),
    ("1 best head, 11 others: no verdict", "it costs 0.5 logits more"): (
        lambda rng, seed: best(rng, seed, 1, [0.5])
    ),
    ("largest layer", "its 12 heads cost 0.1 logits more each"): (
        lambda rng, seed: largest(rng, seed, 0.1)
    ),
    ("largest layer", "its 12 heads cost 0.2 logits more each"): (
        lambda rng, seed: largest(rng, seed, 0.2)
    ),
}


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000)
    worlds = parser.parse_args().worlds
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for (finding, planted), world in WORLDS.items():
        told = np.mean([has_verdict(world, seed) for seed in range(worlds)])
        lines.append(f"| {finding} | {planted} | {worlds:,} | {told:.1%} |")
        print(lines[-1], flush=True)
    write_table(lines)


def has_verdict(world: World, seed: int) -> bool:
    """Return whether any test of a world has a p of at most .05."""
    rng = np.random.default_rng(seed)
    effects, tests = world(rng, seed)
    ranked = [
        Ranked(
            test.cut,
            drop(rng, effects, test.parts),
            [drop(rng, effects, sets) for sets in test.random],
        )
        for test in tests
    ]
    return any(p <= LEVEL for p in adjusted(ranked))


def drop(rng: Random, effects: Effects, sets: Sequence[Heads]) -> float:
    """Return the largest drop of sets: whole accuracy, without noise, less accuracy without one."""
    costs = np.array([sum(effects[head] for head in heads) for heads in sets])
    right = rng.binomial(ITEMS, 1 / (1 + np.exp(costs - EASE))) / ITEMS
    return float(1 / (1 + np.exp(-EASE)) - right.min())


if __name__ == "__main__":
    main()
