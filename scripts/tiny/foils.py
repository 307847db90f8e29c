"""Foils: captions made false by one change, and which of a text's words are true of an image.

After FOIL (arXiv:1705.01359), where one noun is changed; here the facts of the drawing say that
the change makes the caption false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from tiny.world import Facts
from vlbench.data.coco_files import Phrase
from vlbench.data.scenes.world import BACKGROUNDS, CATEGORIES, COLOURS, NOUNS, plural


class Caption(NamedTuple):
    """The words of a caption, and its phrases."""

    words: Sequence[str]
    phrases: Sequence[Phrase]


Foil = Callable[[Facts, Caption, Random], Caption | None]

# The form of a noun in a caption, and its singular.
SINGULAR = {form: noun for noun in NOUNS + CATEGORIES for form in (plural(noun), noun)}

# What an attribute may be exchanged for. No caption says of a thing that it is plain or medium.
SIZES, TEXTURES = ("small", "large"), ("striped", "spotted")
ALIKE = {word: kind for kind in (tuple(COLOURS), SIZES, TEXTURES) for word in kind}
MARKS = {"stripes": "striped", "spots": "spotted"}

_PAIRS = (("left", "right"), ("above", "below"), ("over", "under"), ("top", "bottom"))
OPPOSITE = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}


def captions(facts: Facts) -> list[Caption]:
    """Return the captions of an image."""
    return [Caption(*one) for one in zip(facts.words, facts.phrases, strict=True)]


def noun(facts: Facts, caption: Caption, rng: Random) -> Caption | None:
    """Exchange one noun for that of no thing in the image, fine-grained or not as it was."""
    named = [p for p in caption.phrases if p.boxes and caption.words[p.stop - 1] in SINGULAR]
    if not named:
        return None
    phrase = rng.choice(named)
    old = SINGULAR[caption.words[phrase.stop - 1]]
    level = CATEGORIES if old in CATEGORIES else NOUNS
    new = rng.choice([name for name in level if not any(name in one for one in facts.things)])
    return _exchange(caption, phrase.stop - 1, plural(new) if len(phrase.boxes) > 1 else new)


def attribute(facts: Facts, caption: Caption, rng: Random) -> Caption | None:
    """Exchange one colour, size, texture or kind of background."""
    found = [
        (i, options)
        for i in range(len(caption.words))
        if (options := _false_attributes(facts, caption, i))
    ]
    if not found:
        return None
    i, options = rng.choice(found)
    return _exchange(caption, i, rng.choice(options))


def order(_: Facts, caption: Caption, __: Random) -> Caption | None:
    """Exchange the names of two things of which one is left of, right of, above or below."""
    things = [phrase for phrase in caption.phrases if phrase.boxes]
    if [len(phrase.boxes) for phrase in things] != [1, 1]:
        return None
    (a, b), words = things, list(caption.words)
    first, middle, last = words[a.start : a.stop], words[a.stop : b.start], words[b.start : b.stop]
    if not any(word in OPPOSITE for word in middle):
        return None
    stop = a.start + len(last)
    swapped = [Phrase(a.start, stop, b.boxes), Phrase(stop + len(middle), b.stop, a.boxes)]
    others = [phrase for phrase in caption.phrases if not phrase.boxes]
    return Caption(
        [*words[: a.start], *last, *middle, *first, *words[b.stop :]], [*swapped, *others]
    )


def place(_: Facts, caption: Caption, __: Random) -> Caption | None:
    """Exchange the word for a place, such as left, for its opposite."""
    found = [i for i, word in enumerate(caption.words) if word in OPPOSITE]
    return _exchange(caption, found[0], OPPOSITE[caption.words[found[0]]]) if found else None


FOILS: Mapping[str, Foil] = {"noun": noun, "attribute": attribute, "order": order, "place": place}

# Those that make the word for a place false.
MISPLACED = ("order", "place")


def seen(facts: Facts, caption: Caption) -> list[bool | None]:
    """Return of each word whether the image has it; None for words that say nothing of looks.

    An attribute must be that of a thing with the name that its phrase has, where there is one.
    """
    return [_is_seen(facts, caption, i) for i in range(len(caption.words))]


def _is_seen(facts: Facts, caption: Caption, i: int) -> bool | None:
    word, owner = MARKS.get(caption.words[i], caption.words[i]), _owner(caption, i)
    if owner and not owner.boxes and word in BACKGROUNDS:
        return word == facts.background
    if word in SINGULAR:
        return any(SINGULAR[word] in thing for thing in facts.things)
    if word not in ALIKE:
        return None
    name = SINGULAR.get(caption.words[owner.stop - 1], "") if owner else ""
    named = [thing for thing in facts.things if name in thing]
    return any(word in thing for thing in named or facts.things)


def _false_attributes(facts: Facts, caption: Caption, i: int) -> list[str]:
    """Return what word i can be exchanged for to make the caption false."""
    word, owner = caption.words[i], _owner(caption, i)
    if owner and not owner.boxes and word in BACKGROUNDS:
        return [kind for kind in BACKGROUNDS if kind != facts.background]
    if owner and word in MARKS:
        return [mark for mark in MARKS if mark != word]
    if owner and word in ALIKE:
        looks = frozenset[str]().union(*(facts.things[box] for box in owner.boxes))
        return [other for other in ALIKE[word] if other not in looks]
    return []


def _owner(caption: Caption, i: int) -> Phrase | None:
    """Return the phrase that word i belongs to, else the only one that names things."""
    inside = [phrase for phrase in caption.phrases if phrase.start <= i < phrase.stop]
    things = [phrase for phrase in caption.phrases if phrase.boxes]
    found = inside or (things if len(things) == 1 else [])
    return found[0] if found else None


def _exchange(caption: Caption, i: int, word: str) -> Caption:
    """Return a caption with another word i, and the article before it in agreement."""
    words = list(caption.words)
    words[i] = word
    if i and words[i - 1] in {"a", "an"}:
        words[i - 1] = "an" if word[0] in "aeiou" else "a"
    return Caption(words, caption.phrases)
