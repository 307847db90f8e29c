"""Questions about pairs of scenes, with two options each, and the right answer for both sides.

Both sides of a pair have the same question and different answers, so a model that ignores images
is right in exactly half of the cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vlbench.data.scenes.grammar import NUMBERS
from vlbench.data.scenes.layout import Thing
from vlbench.data.scenes.pairs import ScenePair, with_article
from vlbench.data.scenes.world import plural


class PairQuestion(NamedTuple):
    """A question, its options, and the right option for each side."""

    category: str
    text: str
    options: tuple[str, str]
    right: tuple[str, str]


def pair_question(both: ScenePair) -> PairQuestion | None:
    """Return the question about a pair; None for a category that has no question."""
    make = MAKERS.get(both.category)
    return make(both) if make else None


def _things(both: ScenePair, side: int) -> list[Thing]:
    return list(both.sides[side].scene.things)


def _colour(both: ScenePair) -> PairQuestion:
    first, second = (_things(both, side)[0] for side in (0, 1))
    right = (first.colour, second.colour)
    return PairQuestion("colour", f"what colour is the {first.noun} ?", _sorted(right), right)


def _place(both: ScenePair) -> PairQuestion:
    nouns = sorted(thing.noun for thing in _things(both, 0))
    right = [""] * 2
    for side in (0, 1):
        across = {thing.noun: thing.centre[0] for thing in _things(both, side)}
        right[side] = "left" if across[nouns[0]] < across[nouns[1]] else "right"
    text = f"is the {nouns[0]} to the left or to the right of the {nouns[1]} ?"
    return PairQuestion("place", text, ("left", "right"), (right[0], right[1]))


def _number(both: ScenePair) -> PairQuestion:
    few, many = (len(_things(both, side)) for side in (0, 1))
    right = (NUMBERS[few], NUMBERS[many])
    noun = plural(_things(both, 0)[0].noun)
    return PairQuestion("number", f"how many {noun} are there ?", _sorted(right), right)


def _presence(both: ScenePair) -> PairQuestion:
    absent = with_article(_things(both, 0)[1].noun)
    return PairQuestion("presence", f"is there {absent} ?", ("yes", "no"), ("yes", "no"))


def _object(both: ScenePair) -> PairQuestion:
    right = (_things(both, 0)[0].noun, _things(both, 1)[0].noun)
    options = _sorted(right)
    either = " or ".join(map(with_article, options))
    return PairQuestion("object", f"is there {either} ?", options, right)


def _sorted(names: tuple[str, str]) -> tuple[str, str]:
    first, second = sorted(names)
    return first, second


# The question of each category of pairs.
MAKERS: dict[str, Callable[[ScenePair], PairQuestion]] = {
    "attribute": _colour,
    "left_right": _place,
    "count": _number,
    "presence": _presence,
    "object": _object,
}
