"""The colour and mark of each model, the same in every figure and on every page of a folder.

They are assigned to all models of a folder's boards in the order of their names, so the same boards
give the same looks. A new model changes the looks of the models after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

# Colours that colour-blind readers can distinguish: seven of Okabe and Ito (2008), whose yellow is
# too light for lines, and a wine red. None is grey, which is used for chance.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#882255")

# Matplotlib's markers: circle, square, triangle, diamond, triangle down, plus, cross, triangle to
# the left, triangle to the right, pentagon.
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")


# Lines of the scores to beat; unlike models, they have no mark.
CHANCE: Any = {"color": "#777777", "linestyle": "--", "linewidth": 1.0}
FLOOR: Any = {"color": "#222222", "linestyle": ":", "linewidth": 1.4}


class Look(NamedTuple):
    """The look of a model: a colour `#rrggbb`, a mark of MARKS, and whether only its outline."""

    colour: str
    mark: str
    hollow: bool


def looks(names: Iterable[str], controls: Collection[str] = ()) -> dict[str, Look]:
    """Return the look of each model. The first 8 differ in colour, and the first 160 in some way.

    The order of the names, and duplicates, change nothing. The `controls` among them come last, so
    they take no model's colour if there are enough colours.
    """
    ordered = sorted(set(names), key=lambda name: (name in controls, name))
    return {name: _look(i) for i, name in enumerate(ordered)}


def style(look: Look) -> dict[str, Any]:
    """Return a look as matplotlib's arguments for lines with marks."""
    face = "white" if look.hollow else look.colour
    shape = {"marker": look.mark, "markersize": 4.5, "markerfacecolor": face}
    return {"color": look.colour} | shape


def _look(i: int) -> Look:
    colours, marks = len(COLOURS), len(MARKS)
    hollow = i // (colours * marks) % 2 == 1
    return Look(COLOURS[i % colours], MARKS[(i + i // colours) % marks], hollow)
