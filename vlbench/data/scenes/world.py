"""The vocabulary of `scenes`: things in a small hierarchy, and their possible attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from numpy.random import Generator

T = TypeVar("T")

# Raised whenever any image or annotation would change.
VERSION = 2

# Part of the seed of every row: another number draws other images.
DRAWN = 1

# Image size in pixels, both sides.
SIDE = 64

# The region kinds of this world's proposals; models that read a kind name it in models.yaml. In the
# first, a vector is the pixels of the box; in the second, a code of its content, like the output of
# a detector that knows everything.
CROPS, ORACLE = "scenes-crops", "scenes-oracle"

# family -> category -> fine-grained nouns
HIERARCHY: dict[str, dict[str, tuple[str, ...]]] = {
    "animal": {
        "dog": ("puppy", "hound", "poodle"),
        "bird": ("duck", "owl", "parrot", "penguin"),
        "fish": ("goldfish", "shark", "eel"),
    },
    "vehicle": {
        "car": ("taxi", "van", "truck", "jeep"),
        "boat": ("sailboat", "canoe", "ferry"),
        "plane": ("jet", "glider", "biplane"),
    },
    "plant": {
        "tree": ("pine", "palm", "oak"),
        "flower": ("tulip", "daisy", "rose"),
        "fruit": ("apple", "pear", "banana", "cherry"),
    },
    "furnishing": {
        "cup": ("mug", "goblet", "teacup"),
        "chair": ("stool", "armchair", "bench"),
        "hat": ("cap", "sombrero", "beanie", "bowler"),
    },
}

CATEGORIES = tuple(category for family in HIERARCHY.values() for category in family)
NOUNS = tuple(noun for family in HIERARCHY.values() for nouns in family.values() for noun in nouns)
CATEGORY = {
    noun: category
    for family in HIERARCHY.values()
    for category, nouns in family.items()
    for noun in nouns
}
FAMILY = {category: name for name, family in HIERARCHY.items() for category in family}

# Categories of the split for unseen objects (VSEP, section 4.3), one per family: not in training.
HELD_OUT = ("fish", "boat", "flower", "cup")
SEEN_CATEGORIES = tuple(category for category in CATEGORIES if category not in HELD_OUT)
SEEN_NOUNS = tuple(noun for noun in NOUNS if CATEGORY[noun] not in HELD_OUT)

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (205, 40, 40),
    "orange": (238, 130, 25),
    "yellow": (238, 215, 50),
    "green": (45, 160, 65),
    "blue": (50, 90, 215),
    "purple": (130, 60, 175),
    "pink": (243, 140, 190),
    "brown": (125, 80, 45),
    "black": (38, 38, 44),
    "white": (243, 243, 243),
}

# The colours that are more frequent in a category, and the probability of using only these.
TYPICAL: dict[str, tuple[str, ...]] = {
    "dog": ("brown", "white", "black"),
    "bird": ("blue", "white"),
    "fish": ("orange", "blue"),
    "car": ("red", "black"),
    "boat": ("white", "red"),
    "plane": ("white", "blue"),
    "tree": ("green", "brown"),
    "flower": ("pink", "purple"),
    "fruit": ("red", "yellow"),
    "cup": ("yellow", "orange"),
    "chair": ("brown", "green"),
    "hat": ("black", "purple"),
}
HABIT = 0.5

# Half the width of a thing in pixels, in images of several things. No text mentions "medium".
SIZES: dict[str, tuple[float, float]] = {
    "small": (7.5, 9.0),
    "medium": (10.5, 12.0),
    "large": (14.0, 16.0),
}

# A single thing in an image is larger by this factor, and at most this many pixels off centre.
ALONE = 1.75
OFF_CENTRE = 4.0

TEXTURES = ("plain", "striped", "spotted")
BACKGROUNDS = ("plain", "cloudy", "striped", "checked")

# Things with a front: their shapes face right, and are mirrored to face left.
FACING = frozenset({"dog", "bird", "fish", "car", "plane"})

_SAME_IN_PLURAL = frozenset({"fish", "goldfish"})


def plural(noun: str) -> str:
    """Return the English plural of a noun of this world."""
    if noun in _SAME_IN_PLURAL:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("ch", "s")) else "s")


def pick(rng: Generator, options: Sequence[T]) -> T:
    """Return a random option, the same as `rng.choice` but several times as fast."""
    return options[int(rng.integers(len(options)))]
