"""Region proposals like those of a detector: jittered boxes, distractors, and confidences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from vlbench.data.scenes.drawing import Drawn
from vlbench.data.scenes.layout import Scene, Thing
from vlbench.data.scenes.world import (
    BACKGROUNDS,
    CATEGORIES,
    COLOURS,
    NOUNS,
    SIDE,
    SIZES,
    TEXTURES,
    VERSION,
    pick,
)

WIDTH = 64

# The standard deviation of the noise on each number of a vector; the signal's is 1.
NOISE = 1.5

# The probability that the label of a thing's proposal is right.
RIGHT = 0.97

Floats = np.ndarray[Any, np.dtype[np.float32]]
Box = tuple[float, float, float, float]

ATTRIBUTES = (*CATEGORIES, *NOUNS, *COLOURS, *SIZES, *TEXTURES, *(f"{b} back" for b in BACKGROUNDS))


class Proposals(NamedTuple):
    """Boxes float32 [R, 4] (xyxy pixels), vectors [R, 64], scores [R] descending, and labels."""

    boxes: Floats
    vectors: Floats
    scores: Floats
    labels: list[str]


def propose(scene: Scene, drawn: Drawn, rng: Generator) -> Proposals:
    """Return 1 or 2 proposals per thing and 3 to 6 distractors, the most confident first."""
    rows: list[tuple[Box, list[str], float, str]] = []
    for thing, box in zip(scene.things, drawn.boxes, strict=True):
        rows += [_of_thing(thing, box, rng) for _ in range(1 + int(rng.random() < 0.35))]
    kind = f"{scene.backdrop.kind} back"
    rows += [_distractor(kind, drawn.boxes, rng) for _ in range(int(rng.integers(3, 7)))]
    rows.sort(key=lambda row: -row[2])
    directions = _projection()
    exact = np.stack([sum(directions[ATTRIBUTES.index(a)] for a in row[1]) for row in rows])
    vectors = exact + NOISE * rng.standard_normal(exact.shape)
    return Proposals(
        boxes=np.array([row[0] for row in rows], np.float32),
        vectors=vectors.astype(np.float32),
        scores=np.array([row[2] for row in rows], np.float32),
        labels=[row[3] for row in rows],
    )


def _of_thing(thing: Thing, box: Box, rng: Generator) -> tuple[Box, list[str], float, str]:
    size = np.array([box[2] - box[0], box[3] - box[1]])
    jitter = rng.normal(0, 0.13, 4) * np.tile(size, 2)
    is_right = rng.random() < RIGHT
    label = thing.category if is_right else pick(rng, CATEGORIES)
    words = [thing.category, thing.noun, thing.colour, thing.size, thing.texture]
    return _inside(np.array(box) + jitter), words, float(rng.beta(6, 2)), label


def _distractor(
    kind: str, boxes: Sequence[Box], rng: Generator
) -> tuple[Box, list[str], float, str]:
    """Return a box that covers no thing well: of three random boxes, the one of least overlap."""
    low = rng.uniform(0, SIDE - 12, (3, 2))
    drawn = np.concatenate([low, np.minimum(SIDE, low + rng.uniform(10, 34, (3, 2)))], 1)
    overlaps = [max(overlap(box, candidate) for box in boxes) for candidate in drawn.tolist()]
    best = drawn[int(np.argmin(overlaps))]
    return _inside(best), [kind], float(rng.beta(2.5, 4)), pick(rng, CATEGORIES)


def overlap(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the intersection over union of two boxes, 0..1."""
    across = min(first[2], second[2]) - max(first[0], second[0])
    down = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(0.0, across) * max(0.0, down)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second))
    return shared / (areas - shared)


def _inside(box: np.ndarray[Any, Any]) -> Box:
    """Return a box cut to the image, at least two pixels wide and high."""
    left, top = np.clip(box[:2], 0, SIDE - 2)
    right, bottom = np.clip(box[2:], [left + 2, top + 2], SIDE)
    return float(left), float(top), float(right), float(bottom)


@cache
def _projection() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the direction of each attribute, [A, 64], the same for all scenes of this VERSION."""
    rng = np.random.default_rng([VERSION, WIDTH])
    drawn: np.ndarray[Any, np.dtype[np.float64]] = rng.standard_normal((len(ATTRIBUTES), WIDTH))
    # A thing has five attributes: the sum of their directions has a standard deviation of 1.
    return drawn * 5**-0.5
