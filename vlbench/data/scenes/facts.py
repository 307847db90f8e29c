"""Facts about a drawn scene, the basis of captions and questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from vlbench.data.scenes.drawing import Drawn
from vlbench.data.scenes.layout import Scene, Thing
from vlbench.data.scenes.world import FACING, SIDE

# Pixels between the centres of two boxes: more than APART for left of, right of, above and below,
# less than NEAR for near.
APART = 9.0
NEAR = 26.0

# The smallest hidden fraction of a thing at which a caption may state that another thing hides it.
HIDES = 0.06

# A thing is at the left, right, top or bottom if its box's centre is in this fraction of the image.
OUTER = 0.34


class Group(NamedTuple):
    """Things that a phrase names together: a single thing, or twins of one noun."""

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
    """A relation between two single things, such as left or behind."""

    kind: str
    subject: Group
    object: Group


@dataclass(frozen=True)
class SceneView:
    """The facts that texts may state of a scene; `places` are (group, left/right/top/bottom)."""

    groups: list[Group]
    facts: list[Fact]
    places: list[tuple[Group, str]]
    background: str
    count: int

    @property
    def singles(self) -> list[Group]:
        """Return the things that are not twins."""
        return [group for group in self.groups if len(group.members) == 1]


def view(scene: Scene, drawn: Drawn) -> SceneView:
    """Return the facts that texts may state of a scene and its drawing."""
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
    return SceneView(groups, facts, places, scene.backdrop.kind, len(things))


def centre(box: tuple[float, float, float, float]) -> tuple[float, float]:
    """Return the centre of a box, (x, y)."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _between(a: Group, b: Group, drawn: Drawn) -> list[str]:
    """Return the kinds of facts that are true of a, the subject, and b, the object."""
    (i,), (j,), (first,), (second,) = a.members, b.members, a.things, b.things
    (ax, ay), (bx, by) = centre(drawn.boxes[i]), centre(drawn.boxes[j])
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
    x, y = (c / SIDE for c in centre(drawn.boxes[group.members[0]]))
    holds = {"left": x < OUTER, "right": x > 1 - OUTER, "top": y < OUTER, "bottom": y > 1 - OUTER}
    return [place for place, is_so in holds.items() if is_so]
