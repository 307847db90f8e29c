"""One row per image: a scene is laid out, drawn and annotated with the row's seeded generator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
from numpy.random import Generator

from vlbench.data.scenes.captions import captions
from vlbench.data.scenes.drawing import Drawn, draw
from vlbench.data.scenes.facts import view
from vlbench.data.scenes.layout import Scene, several, single, with_moved_things
from vlbench.data.scenes.pairs import PAIRS, count_pairs, pair
from vlbench.data.scenes.proposals import propose
from vlbench.data.scenes.questions import questions
from vlbench.data.scenes.world import (
    CATEGORIES,
    DRAWN,
    HELD_OUT,
    NOUNS,
    SEEN_CATEGORIES,
    SEEN_NOUNS,
    SIDE,
)

# Images of one thing. Every split has equally many images of each of the 40 nouns.
OBJECTS = {"train": 1600, "val": 400, "test": 1000}

# Images of 1, 2, 3 and 4 things. In a tenth of the images of several things, two share a noun.
SCENES = {
    "train": (1800, 600, 600, 600),
    "val": (130, 140, 140, 140),
    "test": (150, 620, 540, 540),
}
TWINS = 0.1

# At least this fraction of each thing is visible.
VISIBLE = 0.5

# A configuration's position is part of its seeds.
CONFIGURATIONS = ("objects", "scenes")

# The configuration of pairs of images that differ by one fact: the two sides of each pair in turn.
PAIRED = "pairs"

# The suffix of a configuration without held-out things. It has the other configuration's images
# that show none, and each of its other images is replaced by an image with as many things.
SEEN = "-seen"

Row = dict[str, Any]


def sizes(configuration: str) -> dict[str, int]:
    """Return the number of rows of each split."""
    if configuration == PAIRED:
        return {"test": 2 * count_pairs("test")}
    several_each = {split: sum(numbers) for split, numbers in SCENES.items()}
    return OBJECTS if configuration.removesuffix(SEEN) == "objects" else several_each


def places(configuration: str) -> dict[str, range]:
    """Return the rows of each split, by their numbers in the whole configuration."""
    rows, start = {}, 0
    for split, size in sizes(configuration).items():
        rows[split] = range(start, start + size)
        start += size
    return rows


def object_noun(configuration: str, i: int) -> str:
    """Return the noun of image i of `objects` or `objects-seen`, known without drawing it."""
    noun = NOUNS[i % len(NOUNS)]
    if configuration.endswith(SEEN) and noun not in SEEN_NOUNS:
        return _instead(SEEN_NOUNS, i, len(NOUNS))
    return noun


def _first_category(configuration: str, i: int) -> str:
    """Return a category that scene i always shows."""
    category = CATEGORIES[i % len(CATEGORIES)]
    if configuration.endswith(SEEN) and category in HELD_OUT:
        return _instead(SEEN_CATEGORIES, i, len(CATEGORIES))
    return category


def _instead(seen: Sequence[str], i: int, turns: int) -> str:
    """Return the seen name for row i; shifts per turn make all names equally frequent."""
    return seen[(i + i // turns) % len(seen)]


def row(configuration: str, seed: int, i: int) -> tuple[Row, str]:
    """Return row i and the digest of its pixels. It does not depend on the other rows."""
    scene, drawn, rng = drawing(configuration, seed, i)
    file, size = BytesIO(), f"{SIDE}x{SIDE}".encode()
    drawn.image.save(file, "PNG", compress_level=4)
    content = {"image": file.getvalue(), **_annotations(scene, drawn, rng)}
    return content, hashlib.sha256(size + drawn.image.tobytes()).hexdigest()


def drawing(configuration: str, seed: int, i: int) -> tuple[Scene, Drawn, Generator]:
    """Return scene i, its drawing, and the generator that then draws the annotations.

    Its things are moved until enough of each is visible. In a configuration without held-out things
    the layout is repeated until it contains none.
    """
    if configuration == PAIRED:
        return _side_of_pair(seed, i)
    name, only_seen = configuration.removesuffix(SEEN), configuration.endswith(SEEN)
    rng = np.random.default_rng([seed, DRAWN, CONFIGURATIONS.index(name), i])
    if name == "objects":
        scene = single(object_noun(configuration, i), rng)
    else:
        number, first = _numbers(seed)[i], _first_category(configuration, i)
        twins = number > 1 and bool(rng.random() < TWINS)
        scene = several(number, first, twins=twins, rng=rng)
        while only_seen and any(thing.category in HELD_OUT for thing in scene.things):
            scene = several(number, first, twins=twins, rng=rng)
    drawn = draw(scene)
    while min(drawn.visible) < VISIBLE:
        scene = with_moved_things(scene, rng)
        drawn = draw(scene)
    return scene, drawn, rng


def _side_of_pair(seed: int, i: int) -> tuple[Scene, Drawn, Generator]:
    """Return one side of a pair. Random parts of the annotations are the same for both sides."""
    number, side = divmod(i, 2)
    scene = pair(seed, "test", number).sides[side].scene
    return scene, draw(scene), np.random.default_rng([seed, DRAWN, PAIRS, len(SCENES), number])


@cache
def _numbers(seed: int) -> list[int]:
    """Return the number of things of each scene, shuffled within each split."""
    numbers: list[int] = []
    for i, counts in enumerate(SCENES.values()):
        rng = np.random.default_rng([seed, DRAWN, len(CONFIGURATIONS), i])
        numbers += rng.permutation(np.repeat([1, 2, 3, 4], counts)).tolist()
    return numbers


def _annotations(scene: Scene, drawn: Drawn, rng: Generator) -> Row:
    seen, things = view(scene, drawn), scene.things
    sentences = captions(seen, rng)
    pairs, proposals = questions(seen, sentences, rng), propose(scene, drawn, rng)
    return {
        "label": CATEGORIES.index(things[0].category),
        "noun": NOUNS.index(things[0].noun),
        "background": scene.backdrop.kind,
        "boxes": [list(box) for box in drawn.boxes],
        "categories": [thing.category for thing in things],
        "nouns": [thing.noun for thing in things],
        "colours": [thing.colour for thing in things],
        "sizes": [thing.size for thing in things],
        "textures": [thing.texture for thing in things],
        "facings": [thing.facing for thing in things],
        "angles": [thing.angle for thing in things],
        "captions": [sentence.text() for sentence in sentences],
        "words": [sentence.words for sentence in sentences],
        "tags": [sentence.tags for sentence in sentences],
        "arcs": [[arc._asdict() for arc in sentence.arcs] for sentence in sentences],
        "phrases": [[phrase._asdict() for phrase in sentence.phrases] for sentence in sentences],
        "questions": [question.text for question in pairs],
        "answers": [question.answer for question in pairs],
        "proposal_boxes": proposals.boxes.tolist(),
        "proposal_vectors": proposals.vectors.tolist(),
        "proposal_scores": proposals.scores.tolist(),
        "proposal_labels": proposals.labels,
    }
