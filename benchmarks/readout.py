"""Measure how often the gap of `readout` is right, on planted features and scores.

An image has a vector of its class's direction and Gaussian noise; two layers of a model have it,
each mixed into many correlated features with some more noise. The head of the planted model is
linear in the last layer. It gives all classes their scores, so that nothing more can be read and
the gap is 0; or it says nothing of some classes; or features and scores are noise, as those of a
network without knowledge. What Bayes' rule finds in the last layer and in the scores is the planted
gap. The functions are those of the probe.

Run: python benchmarks/readout.py [--worlds 300] [--wide 150]
It writes its table into docs/statistics.md; `--wide` is the number of worlds of wide features.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from coverage import write_table
from torch import Tensor
from torch.distributions import MultivariateNormal

from vlbench.data.records import Column, Data
from vlbench.digests import digest
from vlbench.engine.training import Training
from vlbench.metrics.gains import gain
from vlbench.metrics.items import Examples
from vlbench.probes.generalization.linear import LinearTraining
from vlbench.probes.generalization.readout import (
    SCORES,
    Stages,
    best_stage,
    is_above,
    read_held_out,
    with_scores,
)
from vlbench.probes.given_features import VectorEngine, Vectors, vector_split

CLASSES, UNHEARD, TRAIN, TEST = 4, 1, 1000, 500
NARROW, WIDE = 64, 1024
LAYERS = ("early", "late")

# The standard deviation of noise in each of the directions of classes, whose length is 1, and of
# the noise in each feature.
NOISES = {"easy": 0.4, "hard": 0.9}
OF_FEATURES = {NARROW: 0.1, WIDE: 0.3}

ALL, SOME, NONE = "all classes", "no scores of one class", "nothing known"
TRAINING = LinearTraining(optimizer="lbfgs")
Random = torch.Generator

HEAD = (
    "| planted model | worlds | planted gap | a layer is chosen | mean gap | gap holds what is "
    "planted | interval above it | interval below 0 | above random weights |"
)


class World(NamedTuple):
    """How wide a layer is, and the noise; without noise's name, nothing is known of classes."""

    width: int
    noise: str


class Drawn(NamedTuple):
    """Labels [N], features of both layers [N, 2 D], and the scores of each head [N, C]."""

    label: Tensor
    features: Tensor
    scores: Mapping[str, Tensor]


class LayerEngine(VectorEngine):
    """Takes part of the vectors for the features of a layer."""

    def __init__(self, part: slice) -> None:
        super().__init__()
        self._part = part

    def _features(self, encode: Callable[[Any], Tensor], column: Column, most: float) -> Tensor:
        return super()._features(encode, column, most)[:, self._part]


class OnceEngine(VectorEngine):
    """Trains no probe twice: heads share their layers."""

    def __init__(self) -> None:
        super().__init__()
        self._done: dict[str, Any] = {}

    def train(
        self, key: Mapping[str, Any], make: Callable[[], Training], what: str = "", **how: Any
    ) -> Any:
        """Return the result of a training."""
        name = digest(key)
        if name not in self._done:
            self._done[name] = super().train(key, make, what, **how)
        return self._done[name]


@cache
def mixing(width: int) -> Tensor:
    """Return how features are mixed of the directions of classes, [C, D]."""
    rng = torch.Generator().manual_seed(width)
    return torch.randn(CLASSES, width, generator=rng) / CLASSES**0.5


def draw(world: World, images: int, rng: Random) -> Drawn:
    """Draw images of a world."""
    label, mix = torch.arange(images) % CLASSES, mixing(world.width)
    known = torch.zeros(images, CLASSES)
    if world.noise in NOISES:
        known[range(images), label] = 1.0
        known += NOISES[world.noise] * torch.randn(images, CLASSES, generator=rng)
    layers = [
        known @ mix + OF_FEATURES[world.width] * torch.randn(images, world.width, generator=rng)
        for _ in LAYERS
    ]
    scores = layers[1] @ torch.linalg.pinv(mix)
    heads = {NONE: torch.randn(images, CLASSES, generator=rng)}
    if world.noise in NOISES:
        heads = {ALL: scores, SOME: scores.clone()}
        heads[SOME][:, -UNHEARD:] = 0
    return Drawn(label, torch.cat(layers, 1), heads)


def planted_gap(world: World, head: str, images: int = 400_000) -> float:
    """Return by how much Bayes' rule is better on the last layer than on the scores."""
    if head != SOME:
        return 0.0
    # Scores of all classes are sufficient: their noise is that of `draw` in these directions.
    mix = mixing(world.width)
    noise = NOISES[world.noise] ** 2 * torch.eye(CLASSES)
    noise += OF_FEATURES[world.width] ** 2 * torch.linalg.inv(mix @ mix.T)
    torch.manual_seed(0)
    label = torch.arange(images) % CLASSES
    scores = torch.eye(CLASSES)[label] + MultivariateNormal(torch.zeros(CLASSES), noise).sample(
        (images,)
    )
    accuracy = []
    for kept in (CLASSES, CLASSES - UNHEARD):
        means, precision = torch.eye(CLASSES)[:, :kept], torch.linalg.inv(noise[:kept, :kept])
        fit = scores[:, :kept] @ precision @ means.T
        fit -= (means @ precision * means).sum(1) / 2
        accuracy.append(float((fit.argmax(1) == label).double().mean()))
    return accuracy[0] - accuracy[1]


class Found(NamedTuple):
    """The stage that is chosen, and the credit of each stage on the test images."""

    best: str
    read: Mapping[str, Tensor]


def read_world(world: World, seed: int) -> dict[str, Found]:
    """Return what is read in a world that is drawn with a seed, by head."""
    drawn = draw(world, TRAIN + TEST, torch.Generator().manual_seed(seed))
    names = [f"class {i}" for i in range(CLASSES)]
    named = np.array(names)[drawn.label.numpy()]
    parts = {"train": slice(TRAIN), "test": slice(TRAIN, None)}
    splits = {s: vector_split(drawn.features[p], named[p], names) for s, p in parts.items()}
    places = {LAYERS[0]: slice(world.width), LAYERS[1]: slice(world.width, None)}
    engines = {name: LayerEngine(place) for name, place in places.items()}
    stages = Stages(Vectors(), OnceEngine(), engines, TRAINING)
    found = {}
    for head, scores in drawn.scores.items():
        known = {s: with_scores(split, scores[parts[s]]) for s, split in splits.items()}
        data = Data(splits=known, classes=names)
        best = best_stage(read_held_out(stages, data, seed))
        read = {stage: one.choice.credit for stage, one in stages.read_all(data).items()}
        found[head] = Found(best, read)
    return found


def line(world: World, head: str, found: Sequence[Found]) -> str:
    """Return the line of what was found in the worlds of a kind."""
    planted, n = planted_gap(world, head), len(found)
    examples = Examples([f"{i:03}" for i in range(TEST)], None, None)
    gaps = [gain("gap", x.read[x.best], x.read[SCORES], examples).score for x in found]
    ends = np.array([score.ci95 for score in gaps])
    # In a world of noise, one layer is to the other as to one of random weights.
    above = [is_above(x.read[LAYERS[1]], x.read[LAYERS[0]], examples) for x in found]
    noise = f", {world.noise}" if world.noise in NOISES else ""
    cells = [
        f"{head}{noise}, {world.width:,} features",
        f"{n:,}",
        f"{planted:.1%}",
        f"{sum(x.best != SCORES for x in found) / n:.1%}",
        f"{np.mean([score.value for score in gaps]):.1%}",
        f"{np.mean((ends[:, 0] <= planted) & (planted <= ends[:, 1])):.1%}",
        f"{np.mean(ends[:, 0] > planted):.1%}",
        f"{np.mean(ends[:, 1] < 0):.1%}",
        f"{np.mean(above):.1%}" if head == NONE else "",
    ]
    return f"| {' | '.join(cells)} |"


def table(found: Mapping[tuple[World, str], Sequence[Found]]) -> list[str]:
    """Return the table of all kinds of worlds."""
    return [
        HEAD,
        "|---" * HEAD.count(" | ") + "|---|",
        *(line(*key, one) for key, one in found.items()),
    ]


def main() -> None:
    """Draw the worlds, and write the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--worlds", type=int, default=300)
    arguments.add_argument("--wide", type=int, default=150)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    found: dict[tuple[World, str], list[Found]] = {}
    for width, worlds in {NARROW: given.worlds, WIDE: given.wide}.items():
        for noise, seed in product([*NOISES, "none"], range(worlds)):
            world = World(width, noise)
            for head, one in read_world(world, seed).items():
                found.setdefault((world, head), []).append(one)
    lines = table(found)
    print("\n".join(lines))
    write_table(lines)


if __name__ == "__main__":
    main()
