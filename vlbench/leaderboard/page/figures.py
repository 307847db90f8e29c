"""Figures of boards as plain values of SVG: lines along a number, or rows of dots."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from vlbench.boards import Board
from vlbench.drawing.looks import COLOURS, Look, looks
from vlbench.leaderboard.figures.charts import FAR, FAR_FROM_ZERO, Panel, Point, chance, levels
from vlbench.leaderboard.figures.figures import board_panels
from vlbench.leaderboard.page.values import Chart, Curve, Figure
from vlbench.leaderboard.tables import condition

# The inside of a panel of 320 x 200.
LEFT, RIGHT, TOP, BOTTOM = 46.0, 308.0, 14.0, 158.0

# More lines than this are no longer told apart; more panels are a table.
MOST_MODELS = 8
MOST_PANELS = 12

# The marks of looks around the origin, as SVG paths.
MARKS = {
    "o": "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "s": "m-3-3h6v6h-6z",
    "^": "m0-4l3.5 6.5h-7z",
    "D": "m0-4l4 4l-4 4l-4-4z",
    "v": "m0 4l3.5-6.5h-7z",
    "P": "m-1-4h2v3h3v2h-3v3h-2v-3h-3v-2h3z",
    "X": "m0-1.5l2.5-2.5l1.5 1.5l-2.5 2.5l2.5 2.5l-1.5 1.5l-2.5-2.5l-2.5 2.5l-1.5-1.5l2.5-2.5"
    "l-2.5-2.5l1.5-1.5z",
    "<": "m-4 0l6.5-3.5v7z",
    ">": "m4 0l-6.5-3.5v7z",
    "p": "m0-4l3.8 2.8l-1.5 4.4h-4.6l-1.5-4.4z",
}

Places = Callable[[float], float]


def figure_of_board(board: Board, best: Sequence[str], names: Sequence[str]) -> Figure | None:
    """Return the figure of a board's primary metric, of the first few models in `best`.

    None where the table says it all: without a number to draw the score along. `names` are
    all models of the page: each has one colour and mark everywhere.
    """
    of = looks(names)
    panels = [panel for panel in board_panels(board) if panel.x][:MOST_PANELS]
    there = [name for name in best if any(name in panel.models for panel in panels)]
    drawn = there[:MOST_MODELS]
    if not drawn:
        return None
    charts = [_chart(panel, drawn, of) for panel in panels]
    legend = [(name, _class(of[name]), f"M8 6{MARKS[of[name].mark]}") for name in drawn]
    return Figure(charts, legend, len(there) - len(drawn))


def _chart(panel: Panel, names: Sequence[str], of: Mapping[str, Look]) -> Chart:
    models = {name: sorted(panel.models[name]) for name in names if name in panel.models}
    points = [point for found in models.values() for point in found]
    xs = sorted({point.x for point in points})
    # Where the chance of models differs, the one that is hardest to beat.
    guessed = [(x, found[-1]) for x, found in levels(panel, chance).items() if x in xs]
    low, high = _range([*points, *(Point(x, y, None) for x, y in guessed)])
    across, up = _across(xs), _linear(low, high, BOTTOM, TOP)
    return Chart(
        title=panel.title,
        x=panel.x.replace("_", " "),
        y=panel.y,
        x_ticks=[(_round(across(x)), condition(x)) for x in _few(xs, across)],
        y_ticks=[(_round(up(y)), f"{y:g}") for y in _steps(low, high)],
        chance=_path([(across(x), up(y)) for x, y in guessed]),
        curves=[_curve(found, of[name], across, up) for name, found in models.items()],
    )


def _curve(points: Sequence[Point], look: Look, across: Places, up: Places) -> Curve:
    places = [(across(point.x), up(point.y)) for point in points]
    ends = [(x, p.interval) for (x, _), p in zip(places, points, strict=True) if p.interval]
    return Curve(
        look=_class(look),
        line=_path(places),
        intervals="".join(f"M{x:.1f} {up(lo):.1f}V{up(hi):.1f}" for x, (lo, hi) in ends),
        marks="".join(f"M{x:.1f} {y:.1f}{MARKS[look.mark]}" for x, y in places),
    )


def _path(places: Sequence[tuple[float, float]]) -> str:
    text = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f"M{text}" if text else ""


def _class(look: Look) -> str:
    """Return the classes of a look in page.css."""
    return f"c{COLOURS.index(look.colour)}{' hollow' if look.hollow else ''}"


def _range(points: Sequence[Point]) -> tuple[float, float]:
    """Return the lowest and highest number to draw: 0 is among them, and 1 for fractions."""
    numbers = [0.0, *(point.y for point in points)]
    numbers += [end for point in points for end in point.interval or ()]
    low, high = min(numbers), max(numbers)
    return low, 1.0 if 0.2 < high <= 1.0 else high or 1.0


def _across(xs: Sequence[float]) -> Places:
    """Return where a number lies from left to right; by its logarithm where they lie far apart."""
    positive = [x for x in xs if x > 0.0]
    far = FAR if len(positive) == len(xs) else FAR_FROM_ZERO
    if not positive or positive[-1] <= far * positive[0]:
        return _linear(xs[0], xs[-1], LEFT + 8.0, RIGHT - 8.0)
    # As Matplotlib's symlog: linear from 0 to the smallest positive number, which takes a decade.
    first = positive[0]

    def scaled(x: float) -> float:
        return x / first if x < first else 1.0 + math.log10(x / first)

    inner = _linear(scaled(xs[0]), scaled(xs[-1]), LEFT + 8.0, RIGHT - 8.0)
    return lambda x: inner(scaled(x))


def _linear(low: float, high: float, start: float, end: float) -> Places:
    width = high - low
    return lambda x: start + (end - start) * ((x - low) / width if width else 0.5)


def _few(xs: Sequence[float], across: Places) -> list[float]:
    """Return the numbers that have room for a label."""
    kept: list[float] = []
    for x in xs:
        if not kept or across(x) - across(kept[-1]) >= 26.0:
            kept.append(x)
    return kept


def _steps(low: float, high: float) -> list[float]:
    """Return up to six round numbers between two."""
    size = 10.0 ** math.floor(math.log10(high - low))
    step = next(s * size for s in (0.1, 0.2, 0.5, 1.0, 2.0) if (high - low) / (s * size) <= 5.0)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _round(place: float) -> float:
    return round(place, 1)
