"""What is true of a drawn scene: what a caption may say and a question may ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from vlbench.data.scenes.drawing import Drawn
from vlbench.data.scenes.layout import Scene, Thing
from vlbench.data.scenes.world import FACING, SIDE

# Pixels between the middles of two boxes from which one is left of, or above, the other; and up to
# which it is near.
APART = 9.0
NEAR = 26.0

# The share of a thing that another hides, from which a caption may say so.
HIDES = 0.06

# How much of the image lies at its left, right, top or bottom, where the middle of a box is.
OUTER = 0.34


class Group(NamedTuple):
    """Things that are spoken of together: one thing, or twins of one noun."""

    members: tuple[int, ...]
    things: tuple[Thing, ...]

    @property
    def noun(self) -> str:
        """Return the noun of all members."""
        return self.things[0].noun

    @property
    def category(self) -> str:
        """Return the category of all members."""
        return self.things[0].category


class Fact(NamedTuple):
    """Something that holds between two single things."""

    kind: str
    subject: Group
    object: Group


@dataclass(frozen=True)
class View:
    """A drawn scene as one would speak of it; `places` are (group, left/right/top/bottom)."""

    groups: list[Group]
    facts: list[Fact]
    places: list[tuple[Group, str]]
    background: str
    count: int

    @property
    def singles(self) -> list[Group]:
        """Return the things that are not twins."""
        return [group for group in self.groups if len(group.members) == 1]


def view(scene: Scene, drawn: Drawn) -> View:
    """Return what may be said of a scene."""
    things = list(scene.things)
    groups = [
        Group(members, tuple(things[i] for i in members))
        for noun in dict.fromkeys(thing.noun for thing in things)
        for members in [tuple(i for i, thing in enumerate(things) if thing.noun == noun)]
    ]
    singles = [group for group in groups if len(group.members) == 1]
    facts = [
        Fact(kind, a, b)
        for a in singles
        for b in singles
        if a != b
        for kind in _between(a, b, drawn)
    ]
    places = [(group, place) for group in singles for place in _places(group, drawn)]
    return View(groups, facts, places, scene.backdrop.kind, len(things))


def middle(box: tuple[float, float, float, float]) -> tuple[float, float]:
    """Return the middle of a box, (x, y)."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _between(a: Group, b: Group, drawn: Drawn) -> list[str]:
    """Return the kinds of fact that hold of a, seen from b."""
    (i,), (j,), (first,), (second,) = a.members, b.members, a.things, b.things
    (ax, ay), (bx, by) = middle(drawn.boxes[i]), middle(drawn.boxes[j])
    across, down = bx - ax, by - ay
    ahead = across if first.facing == "right" else -across
    holds = {
        "left": across > APART,
        "right": across < -APART,
        "above": down > APART,
        "below": down < -APART,
        "near": (across**2 + down**2) ** 0.5 < NEAR,
        "behind": drawn.hidden[j, i] > HIDES,
        "front": drawn.hidden[i, j] > HIDES,
        "faces": first.category in FACING and ahead > APART and abs(down) < 0.8 * ahead,
        "dwarfs": (first.size, second.size) == ("large", "small"),
    }
    return [kind for kind, is_so in holds.items() if is_so]


def _places(group: Group, drawn: Drawn) -> list[str]:
    x, y = (c / SIDE for c in middle(drawn.boxes[group.members[0]]))
    holds = {"left": x < OUTER, "right": x > 1 - OUTER, "top": y < OUTER, "bottom": y > 1 - OUTER}
    return [place for place, is_so in holds.items() if is_so]
