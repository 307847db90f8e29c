"""The layout of an image: things with their attributes and positions, and the background."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from vlbench.data.scenes.world import (
    ALONE,
    BACKGROUNDS,
    CATEGORIES,
    CATEGORY,
    COLOURS,
    HABIT,
    HIERARCHY,
    OFF_CENTRE,
    SIDE,
    SIZES,
    TEXTURES,
    TYPICAL,
    pick,
)

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Colour = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One thing: the words that describe it, and the numbers for its drawing.

    `angle` is in degrees clockwise. `facing` is left or right for every thing; captions mention it
    only for things with a front.
    """

    noun: str
    colour: str
    size: str
    texture: str
    facing: str
    angle: float
    radius: float
    paint: Colour
    centre: tuple[float, float] = (0.0, 0.0)

    @property
    def category(self) -> str:
        """Return the category of the noun."""
        return CATEGORY[self.noun]

    @property
    def tilted(self) -> bool:
        """Return whether the thing leans far enough for a caption to mention it."""
        return abs(self.angle) > 15


class Backdrop(NamedTuple):
    """A background: its kind, two colours, the width of a stripe, and clouds uint8 [6, 6]."""

    kind: str
    colours: tuple[Colour, Colour]
    width: int
    clouds: Pixels


@dataclass(frozen=True)
class Scene:
    """Things from back to front, and their background.

    `screen` is a patch of background (centre and half a side) that hides a part of a single thing.
    """

    things: Sequence[Thing]
    backdrop: Backdrop
    screen: tuple[float, float, float] | None = None


def single(noun: str, rng: Generator) -> Scene:
    """Return a scene of one thing near the centre, sometimes partly hidden."""
    x, y = SIDE / 2 + rng.uniform(-OFF_CENTRE, OFF_CENTRE, 2)
    thing = replace(thing_of(noun, rng, ALONE), centre=(float(x), float(y)))
    away = rng.uniform(0, 2 * np.pi)
    x, y = (c + thing.radius * f(away) for c, f in zip(thing.centre, (np.cos, np.sin), strict=True))
    screen = (x, y, thing.radius * rng.uniform(0.35, 0.6)) if rng.random() < 0.35 else None
    return Scene([thing], backdrop_of(rng), screen)


def several(number: int, first: str, *, twins: bool, rng: Generator) -> Scene:
    """Return a scene of `number` things of different categories, one of them `first`.

    With `twins` two of the things share a noun, so there is one category fewer.
    """
    others = [c for c in CATEGORIES if c != first]
    categories = [first, *(str(c) for c in rng.permutation(others)[: number - 1 - twins])]
    nouns = [pick(rng, _nouns(category)) for category in categories]
    nouns += nouns[:1] if twins else []
    scale = ALONE if number == 1 else 1.0
    crowded = number > 2
    things = [thing_of(noun, rng, scale, crowded=crowded and i > 0) for i, noun in enumerate(nouns)]
    order = rng.permutation(number)
    return Scene(_place([things[i] for i in order], rng), backdrop_of(rng))


def with_moved_things(scene: Scene, rng: Generator) -> Scene:
    """Return the scene with its things at new positions."""
    return replace(scene, things=_place(scene.things, rng))


def _nouns(category: str) -> tuple[str, ...]:
    return next(family[category] for family in HIERARCHY.values() if category in family)


def thing_of(noun: str, rng: Generator, scale: float = 1.0, *, crowded: bool = False) -> Thing:
    """Return a thing with random attributes; a `crowded` thing is not large."""
    sizes = ["small", "medium"] if crowded else list(SIZES)
    colours = TYPICAL[CATEGORY[noun]] if rng.random() < HABIT else list(COLOURS)
    size, colour = pick(rng, sizes), pick(rng, colours)
    leans = rng.random() < 0.35
    angle = pick(rng, [-1, 1]) * rng.uniform(20, 40) if leans else rng.uniform(-8, 8)
    paint = paint_of(colour, rng)
    return Thing(
        noun=noun,
        colour=colour,
        size=size,
        texture=str(rng.choice(TEXTURES, p=(0.5, 0.25, 0.25))),
        facing=pick(rng, ["left", "right"]),
        angle=float(angle),
        radius=float(rng.uniform(*SIZES[size]) * scale),
        paint=paint,
    )


def paint_of(colour: str, rng: Generator) -> Colour:
    """Return a shade of a colour."""
    red, green, blue = (
        min(max(level + shift, 0), 255)
        for level, shift in zip(COLOURS[colour], rng.integers(-14, 15, 3).tolist(), strict=True)
    )
    return red, green, blue


def _place(things: Sequence[Thing], rng: Generator) -> list[Thing]:
    """Return the things at positions: the first of 40 draws with enough distance, else the best."""
    radii = np.array([thing.radius for thing in things])
    # A thing may leave the image by a sixth of its half width.
    low, high = radii * 0.83, SIDE - radii * 0.83
    draws = rng.uniform(low[:, None], high[:, None], (40, len(things), 2))
    gaps = np.linalg.norm(draws[:, :, None] - draws[:, None], axis=-1)
    crowding = gaps / (radii[:, None] + radii) + 9 * np.eye(len(things))
    tightest = crowding.min((1, 2))
    # Close enough that a thing sometimes hides a part of another thing.
    loose = np.flatnonzero(tightest > 0.7)
    best = draws[loose[0] if len(loose) else tightest.argmax()]
    return at_centres(things, best)


def at_centres(things: Sequence[Thing], centres: Iterable[Sequence[float]]) -> list[Thing]:
    """Return things moved to these centres."""
    return [
        replace(thing, centre=(float(x), float(y)))
        for thing, (x, y) in zip(things, centres, strict=True)
    ]


def backdrop_of(rng: Generator) -> Backdrop:
    """Return a background in greyish colours, different from most things' colours."""
    grey = rng.uniform(125, 195)
    tints = np.clip(grey + rng.uniform(-22, 22, (2, 3)) + [[-9], [9]], 0, 255).astype(int)
    first, second = ((int(r), int(g), int(b)) for r, g, b in tints)
    clouds = rng.integers(0, 256, (6, 6), dtype=np.uint8)
    return Backdrop(pick(rng, BACKGROUNDS), (first, second), int(rng.integers(5, 10)), clouds)
