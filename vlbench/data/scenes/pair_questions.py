"""Questions about pairs of scenes, with two options each, and the right answer for both sides.

Colours, places, numbers and presence differ between the sides of a pair: the same question has
different answers, so a model that ignores images is right in exactly half of the cases. The total
number of things is always the same, so this question can be answered without the image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vlbench.data.scenes.grammar import NUMBERS
from vlbench.data.scenes.layout import Thing
from vlbench.data.scenes.pairs import Pair
from vlbench.data.scenes.world import plural


class PairQuestion(NamedTuple):
    """A question, its options, and the right option for each side."""

    category: str
    text: str
    options: tuple[str, str]
    right: tuple[str, str]


def pair_question(both: Pair) -> PairQuestion | None:
    """Return the question about a pair; None for a category that has no question."""
    make = MAKERS.get(both.category)
    return make(both) if make else None


def _things(both: Pair, side: int) -> list[Thing]:
    return list(both.sides[side].scene.things)


def _colour(both: Pair) -> PairQuestion:
    first, second = (_things(both, side)[0] for side in (0, 1))
    right = (first.colour, second.colour)
    return PairQuestion("colour", f"what colour is the {first.noun} ?", _sorted(right), right)


def _place(both: Pair) -> PairQuestion:
    nouns = sorted(thing.noun for thing in _things(both, 0))
    right = [""] * 2
    for side in (0, 1):
        across = {thing.noun: thing.centre[0] for thing in _things(both, side)}
        right[side] = "left" if across[nouns[0]] < across[nouns[1]] else "right"
    text = f"is the {nouns[0]} to the left or to the right of the {nouns[1]} ?"
    return PairQuestion("place", text, ("left", "right"), (right[0], right[1]))


def _number(both: Pair) -> PairQuestion:
    few, many = (len(_things(both, side)) for side in (0, 1))
    right = (NUMBERS[few], NUMBERS[many])
    noun = plural(_things(both, 0)[0].noun)
    return PairQuestion("number", f"how many {noun} are there ?", _sorted(right), right)


def _presence(both: Pair) -> PairQuestion:
    absent = _things(both, 0)[1].noun
    article = "an" if absent[0] in "aeiou" else "a"
    return PairQuestion("presence", f"is there {article} {absent} ?", ("yes", "no"), ("yes", "no"))


def _total(_both: Pair) -> PairQuestion:
    two = NUMBERS[2]
    return PairQuestion("total", "how many things are there ?", (two, NUMBERS[3]), (two, two))


def _sorted(names: tuple[str, str]) -> tuple[str, str]:
    first, second = sorted(names)
    return first, second


# The question of each category of pairs.
MAKERS: dict[str, Callable[[Pair], PairQuestion]] = {
    "attribute": _colour,
    "left_right": _place,
    "count": _number,
    "presence": _presence,
    "object": _total,
}
