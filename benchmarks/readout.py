"""Measure how often `readout` finds a gap, on planted models and random networks.

A world has labels, a model's scores of all classes, the features of some layers, and the same
layers of five networks with random weights. Everything is drawn anew in each world. The functions
are those of the probe.

- random network: images are class means and Gaussian noise. The model is itself a network of two or
  eight ReLU layers with random weights, its scores are a random head of the last, and the other
  networks have other weights. There is nothing to find, although the layers hold more of an image
  than its scores.
- ReLU of the scores: the class is the index of the largest absolute score, and the layer is the
  positive and the negative parts of the scores. A linear reader of the scores is far worse.
- no scores of one class: the layer has all classes, and the head gives one class a score of 0.
  Networks with random weights have noise. The planted gap is that of Bayes' rule.
- noise: scores and all layers are noise.

Run: python benchmarks/readout.py [--worlds 1000]
It writes its table into docs/simulations.md.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from coverage import write_table
from torch import Tensor

from vlbench.data.records import Data
from vlbench.metrics.items import Examples
from vlbench.probes.generalization.readers import hold_out_rows, readers
from vlbench.probes.generalization.readout import (
    Conditional,
    Setting,
    is_finding,
    read_conditionally,
    with_scores,
)
from vlbench.probes.given_features import VectorEngine, vector_split
from vlbench.results import Score

CLASSES, TEST, DRAWS, PIXELS = 4, 400, 5, 32
TRAIN, FEW_TRAIN = 600, 300
NARROW, WIDE = 16, 64
BALANCED, IMBALANCED = (1, 1, 1, 1), (10, 10, 1, 1)

# The standard deviation of noise beside class means of length 1, and of each feature.
NOISE, OF_FEATURES = 0.4, 0.1

HEAD = (
    "| world | worlds | planted gap | mean gap | gap holds what is planted | mean gap beyond "
    "random | gap beyond random above 0 | below 0 | finding |"
)

Random = torch.Generator


class World(NamedTuple):
    """Labels [N], scores [N, C], layers [N, D] of the model and of each random network."""

    label: Tensor
    scores: Tensor
    layers: Mapping[str, Tensor]
    random: Sequence[Mapping[str, Tensor]]


class Planted(NamedTuple):
    """A network whose features are planted, in place of the probe's."""

    engines: Mapping[str, Tensor]
    train: int

    def features(self, layer: str, _: Data) -> dict[str, Tensor]:
        """Return the features of both splits."""
        whole = self.engines[layer]
        return {"train": whole[: self.train], "test": whole[self.train :]}


class Kind(NamedTuple):
    """A kind of world: how it is drawn, its train images, what is planted, its share of worlds."""

    draw: Callable[[Tensor, Random], World]
    train: int
    ratio: Sequence[int] = BALANCED
    planted: float = 0.0
    share: float = 1.0


def random_network(width: int, depth: int = 2) -> Callable[[Tensor, Random], World]:
    """Return a function that draws a random network among random networks."""

    def draw(label: Tensor, rng: Random) -> World:
        means = torch.randn(CLASSES, PIXELS, generator=rng) / PIXELS**0.5
        images = means[label] + NOISE * torch.randn(len(label), PIXELS, generator=rng)

        def layers() -> dict[str, Tensor]:
            states = [images]
            for _ in range(depth):
                weights = torch.randn(states[-1].shape[1], width, generator=rng)
                states.append((states[-1] @ weights).relu())
            return {f"layer {i}": states[i] for i in range(1, depth + 1)}

        own = layers()
        scores = own[f"layer {depth}"] @ torch.randn(width, CLASSES, generator=rng)
        return World(label, scores, own, [layers() for _ in range(DRAWS)])

    return draw


def relu_of_scores(label: Tensor, rng: Random) -> World:
    """Draw a layer that is a function of the scores, which a linear reader cannot compute."""
    scores = torch.randn(len(label), CLASSES, generator=rng)
    layer = torch.cat([scores.relu(), (-scores).relu()], 1)
    random = [
        {"layer": (scores @ torch.randn(CLASSES, 2 * CLASSES, generator=rng)).relu()}
        for _ in range(DRAWS)
    ]
    return World(scores.abs().argmax(1), scores, {"layer": layer}, random)


def without_one_class(label: Tensor, rng: Random) -> World:
    """Draw a head that has no scores of the last class, and random networks of noise."""
    known = torch.eye(CLASSES)[label] + NOISE * torch.randn(len(label), CLASSES, generator=rng)
    mix = torch.linalg.qr(torch.randn(WIDE, CLASSES, generator=rng))[0].T
    layer = known @ mix + OF_FEATURES * torch.randn(len(label), WIDE, generator=rng)
    scores = layer @ mix.T
    scores[:, -1] = 0
    return World(label, scores, {"layer": layer}, noise_layers(len(label), rng))


def noise(label: Tensor, rng: Random) -> World:
    """Draw a model that knows nothing."""
    scores = torch.randn(len(label), CLASSES, generator=rng)
    own, *random = noise_layers(len(label), rng, 1 + DRAWS)
    return World(label, scores, own, random)


def noise_layers(images: int, rng: Random, networks: int = DRAWS) -> list[dict[str, Tensor]]:
    """Return a layer of noise for each network."""
    return [{"layer": torch.randn(images, WIDE, generator=rng)} for _ in range(networks)]


def labels_of(ratio: Sequence[int], images: int) -> Tensor:
    """Return labels [N] of classes in this ratio."""
    classes = torch.repeat_interleave(torch.arange(CLASSES), torch.tensor(ratio))
    return classes.repeat(images)[:images]


def planted_gap(ratio: Sequence[int], images: int = 400_000) -> float:
    """Return by how much Bayes' rule is better with the scores of all classes than without one."""
    variance, label = NOISE**2 + OF_FEATURES**2, labels_of(ratio, images)
    rng = torch.Generator().manual_seed(0)
    noise = variance**0.5 * torch.randn(images, CLASSES, generator=rng)
    scores, prior = torch.eye(CLASSES)[label] + noise, torch.tensor(ratio).log()
    accuracy = []
    for kept in (CLASSES, CLASSES - 1):
        means = torch.eye(CLASSES)[:, :kept]
        fit = (scores[:, :kept] @ means.T - means.square().sum(1) / 2) / variance + prior
        accuracy.append(float((fit.argmax(1) == label).double().mean()))
    return accuracy[0] - accuracy[1]


def read_world(kind: Kind, seed: int) -> tuple[Score, Score]:
    """Return the gap and the gap beyond random weights of a world that is drawn with a seed."""
    world = kind.draw(labels_of(kind.ratio, kind.train + TEST), torch.Generator().manual_seed(seed))
    names = [f"class {i}" for i in range(CLASSES)]
    named = np.array(names)[world.label.numpy()]
    parts = {"train": slice(kind.train), "test": slice(kind.train, None)}
    splits = {
        name: with_scores(vector_split(world.scores[p], named[p], names), world.scores[p])
        for name, p in parts.items()
    }
    data = Data(splits=splits, classes=names)
    setting = Setting(data, hold_out_rows(data, seed), readers(5e-4), VectorEngine())
    networks = [Planted(one, kind.train) for one in (world.layers, *world.random)]
    found: Conditional = read_conditionally(
        setting, networks[0], lambda work: [work(i, one) for i, one in enumerate(networks[1:])]
    )
    examples = Examples([f"{i:03}" for i in range(TEST)], None, None)
    gap = found.gap("gap", found.scores, examples).score
    return gap, found.gap_beyond_random(examples).score


def line(name: str, kind: Kind, found: Sequence[tuple[Score, Score]]) -> str:
    """Return the line of what was found in the worlds of a kind."""
    gaps, beyond = ([pair[i] for pair in found] for i in (0, 1))
    ends, ends_beyond = (np.array([one.ci95 for one in some]) for some in (gaps, beyond))
    holds = (ends[:, 0] <= kind.planted) & (kind.planted <= ends[:, 1])
    cells = [
        name,
        f"{len(found):,}",
        f"{kind.planted:.1%}" if not name.startswith("random") else "",
        f"{np.mean([one.value for one in gaps]):.1%}",
        f"{holds.mean():.1%}" if not name.startswith("random") else "",
        f"{np.mean([one.value for one in beyond]):.1%}",
        f"{(ends_beyond[:, 0] > 0).mean():.1%}",
        f"{(ends_beyond[:, 1] < 0).mean():.1%}",
        f"{np.mean([is_finding(*pair) for pair in found]):.1%}",
    ]
    return f"| {' | '.join(cells)} |"


def kinds() -> dict[str, Kind]:
    """Return all kinds of worlds."""
    few, lacking = 0.16, without_one_class
    return {
        f"random network, {NARROW} features": Kind(random_network(NARROW), FEW_TRAIN),
        f"random network, {WIDE} features": Kind(random_network(WIDE), FEW_TRAIN),
        "noise": Kind(noise, FEW_TRAIN, share=few),
        "ReLU of the scores": Kind(relu_of_scores, TRAIN, share=few),
        "no scores of one class": Kind(lacking, TRAIN, BALANCED, planted_gap(BALANCED), few),
        "no scores of one class, classes 10 : 1": Kind(
            lacking, TRAIN, IMBALANCED, planted_gap(IMBALANCED), few
        ),
        f"random network, {NARROW} features, classes 10 : 1": Kind(
            random_network(NARROW), FEW_TRAIN, IMBALANCED, share=0.4
        ),
        f"random network, 8 layers of {NARROW} features": Kind(
            random_network(NARROW, 8), FEW_TRAIN, share=few
        ),
    }


def main() -> None:
    """Draw the worlds, and write the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--worlds", type=int, default=1000)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    lines = [HEAD, "|---" * HEAD.count(" | ") + "|---|"]
    for name, kind in kinds().items():
        worlds = range(max(1, round(kind.share * given.worlds)))
        lines.append(line(name, kind, [read_world(kind, seed) for seed in worlds]))
        print(lines[-1], flush=True)
    write_table(lines)


if __name__ == "__main__":
    main()
