"""Pairs of scenes that differ by one fact, with a caption each: the source of foils.

The caption of one image is wrong for the other. A model that reads only the captions, however
well, chooses the same caption for both images, and is right in exactly one of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from vlbench.data.scenes.grammar import NUMBERS
from vlbench.data.scenes.layout import Scene, Thing, at_centres, backdrop_of, paint_of, thing_of
from vlbench.data.scenes.world import (
    CATEGORY,
    COLOURS,
    DRAWN,
    SEEN_CATEGORIES,
    SEEN_NOUNS,
    SIDE,
    pick,
    plural,
)

# The position in the seeds of rows, after configurations and numbers of things.
PAIRS = 3

# Pairs of each category: in the test split with drawings, in the train split only captions.
COUNTS = {"test": 250, "train": 100}

# The least distance of two things' centres in the direction that a caption states, and the largest
# across it, in pixels.
FAR, ASIDE = 24.0, 8.0

# Half the width of each of several things of one noun, in pixels.
CROWDED = (7.5, 9.0)

OPENINGS = ("the picture shows {} .", "there is {} .", "a drawing of {} .")
OPENINGS_OF_SEVERAL = ("the picture shows {} .", "there are {} .", "a drawing of {} .")

# Words that are true of every picture.
ALWAYS = frozenset(
    (
        *("the", "picture", "shows", "there", "is", "are", "a", "an", "drawing", "of", "and"),
        *("to", "thing", ",", "."),
    )
)
# The things of an image, its caption, and the words that are true of it. Told: a pair of images.
Image = tuple[Sequence[Thing], str, str]
Told = tuple[Image, Image]


class Side(NamedTuple):
    """One image of a pair: its scene, its caption, and the words that are true of it."""

    scene: Scene
    caption: str
    words: frozenset[str]


class ScenePair(NamedTuple):
    """Two sides that differ by one fact, of a category."""

    category: str
    sides: tuple[Side, Side]


@lru_cache(maxsize=4096)  # many tasks of a run read all pairs of a seed
def pair(seed: int, split: str, number: int) -> ScenePair:
    """Return a pair of a split by its number; it does not depend on the other pairs."""
    rng = np.random.default_rng([seed, DRAWN, PAIRS, [*COUNTS].index(split), number])
    category = CATEGORIES[number % len(CATEGORIES)]
    backdrop, versions = backdrop_of(rng), MAKERS[category](rng)
    first, second = (
        Side(Scene(things, backdrop), caption, ALWAYS | frozenset(words.split()))
        for things, caption, words in versions
    )
    return ScenePair(category, (first, second))


def count_pairs(split: str) -> int:
    """Return the number of pairs of a split."""
    return COUNTS[split] * len(CATEGORIES)


def _object(rng: Generator) -> Told:
    """Return two things, and a version with another noun for the first thing."""
    a, b = _two(rng)
    other = replace(a, noun=_noun(rng, a.category, b.category))
    opening = _opening(rng)
    return _enumerated(opening, (a, b)), _enumerated(opening, (other, b))


def _attribute(rng: Generator) -> Told:
    """Return two things, and a version with another colour for the first thing."""
    a, b = _two(rng)
    colour = _colour(rng, a.colour, b.colour)
    other = replace(a, colour=colour, paint=paint_of(colour, rng))
    opening = _opening(rng)
    return _enumerated(opening, (a, b)), _enumerated(opening, (other, b))


def _swapped_attributes(rng: Generator) -> Told:
    """Return two things, and a version with their colours exchanged."""
    a, b = _two(rng)
    swapped = (
        replace(a, colour=b.colour, paint=b.paint),
        replace(b, colour=a.colour, paint=a.paint),
    )
    opening = _opening(rng)
    return _enumerated(opening, (a, b)), _enumerated(opening, swapped)


def _swapped_places(rng: Generator, *, before: str, after: str, across: bool) -> Told:
    """Return two things, and a version with their places exchanged.

    `before` is the relation of the left or upper thing to the other.
    """
    a, b = _placed(_things(rng), rng, across=across)
    exchanged = (replace(a, centre=b.centre), replace(b, centre=a.centre))
    is_before = bool(rng.integers(2))
    relation = before if is_before else after

    def image(things: Sequence[Thing], first: Thing, second: Thing) -> Image:
        subject, of = (first, second) if is_before else (second, first)
        caption = f"{with_article(subject.noun)} {relation} {with_article(of.noun)} ."
        return things, caption, f"{a.noun} {b.noun} {before} {after}"

    return image((a, b), a, b), image(exchanged, b, a)


def _count(rng: Generator) -> Told:
    """Return two or three things of one noun, and a version with more, at most four."""
    few, many = sorted(rng.choice([2, 3, 4], 2, replace=False).tolist())
    noun, opening = _noun(rng), _opening(rng, OPENINGS_OF_SEVERAL)
    things = _scattered([_thing(noun, rng, CROWDED) for _ in range(many)], rng)

    def image(number: int) -> Image:
        words = f"{NUMBERS[number]} {plural(noun)}"
        return things[:number], opening.format(words), words

    return image(few), image(many)


def _presence(rng: Generator) -> Told:
    """Return a picture of two things, and a picture of only the first."""
    a, b = _two(rng)
    opening = _opening(rng)
    both = opening.format(f"{with_article(a.noun)} and {with_article(b.noun)}")
    alone = opening.format(f"one thing , {with_article(a.noun)}")
    return ((a, b), both, f"{a.noun} {b.noun}"), ((a,), alone, f"one {a.noun}")


MAKERS: dict[str, Callable[[Generator], Told]] = {
    "object": _object,
    "attribute": _attribute,
    "swapped_attributes": _swapped_attributes,
    "left_right": partial(
        _swapped_places, before="to the left of", after="to the right of", across=True
    ),
    "above_below": partial(_swapped_places, before="above", after="below", across=False),
    "count": _count,
    "presence": _presence,
}
CATEGORIES = tuple(MAKERS)


def _two(rng: Generator) -> tuple[Thing, Thing]:
    """Return two things of different categories and colours, side by side or one above another."""
    a, b = _placed(_things(rng), rng, across=bool(rng.integers(2)))
    return a, b


def _things(rng: Generator) -> list[Thing]:
    noun = _noun(rng)
    a = _thing(noun, rng)
    b = _thing(_noun(rng, a.category), rng)
    colour = _colour(rng, a.colour)
    return [a, replace(b, colour=colour, paint=paint_of(colour, rng))]


def _thing(noun: str, rng: Generator, radius: tuple[float, float] | None = None) -> Thing:
    thing = thing_of(noun, rng, crowded=True)
    return replace(thing, radius=float(rng.uniform(*radius))) if radius else thing


def _noun(rng: Generator, *without: str) -> str:
    """Return a noun that is not held out, outside some categories."""
    category = pick(rng, [name for name in SEEN_CATEGORIES if name not in without])
    return pick(rng, [noun for noun in SEEN_NOUNS if CATEGORY[noun] == category])


def _colour(rng: Generator, *without: str) -> str:
    return pick(rng, [colour for colour in COLOURS if colour not in without])


def _opening(rng: Generator, openings: Sequence[str] = OPENINGS) -> str:
    return openings[int(rng.integers(len(openings)))]


def _placed(things: Sequence[Thing], rng: Generator, *, across: bool) -> list[Thing]:
    """Return two things apart: the first left of the second, or above it; neither hides the other.

    Each has room at the place of the other.
    """
    room = max(thing.radius for thing in things)
    low, high = room, SIDE - room
    first = rng.uniform(low, high - FAR)
    second = rng.uniform(first + FAR, high)
    beside = rng.uniform(low, high - ASIDE) + rng.uniform(0, ASIDE, 2)
    centres = [(first, beside[0]), (second, beside[1])]
    centres = centres if across else [(y, x) for x, y in centres]
    return at_centres(things, centres)


def _scattered(things: Sequence[Thing], rng: Generator) -> list[Thing]:
    """Return things at places where none hides another."""
    radii = np.array([thing.radius for thing in things])
    touching = radii[:, None] + radii - 2 * np.diag(radii)
    while True:
        centres = rng.uniform(radii[:, None], SIDE - radii[:, None], (len(things), 2))
        gaps = np.linalg.norm(centres[:, None] - centres, axis=-1)
        if (gaps >= touching).all():
            break
    return at_centres(things, centres)


def _enumerated(opening: str, things: Sequence[Thing]) -> Image:
    """Return things, a caption that names them with their colours, and the words for them."""
    names = [f"{thing.colour} {thing.noun}" for thing in things]
    return things, opening.format(" and ".join(map(with_article, names))), " ".join(names)


def with_article(name: str) -> str:
    """Return a name after its article: a van, an apple."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
