"""Charts of scores with intervals, as SVG, PNG and PDF; the same scores give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from vlbench.drawing.fonts import add_fonts, without_glyph_warnings
from vlbench.drawing.layouts import (
    drawn,
    entitle,
    fitted,
    grid,
    is_at_left,
    percent,
    seat_labels,
    text_width,
)
from vlbench.drawing.looks import CHANCE, FLOOR, Look, style
from vlbench.drawing.sheets import figure_png
from vlbench.errors import spaced
from vlbench.report.texts import condition
from vlbench.system.files import write_whole

# A fixed salt makes the identifiers inside an SVG depend only on what is drawn.
STYLE: Any = {
    "svg.hashsalt": "vlbench",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 9.0,
    "axes.linewidth": 0.6,
}
CURVE: Any = {"linestyle": "-", "linewidth": 1.2}
# The band between the lowest and the highest chance or floor of the models, and its handle.
BAND: Any = {"color": "#777777", "alpha": 0.2, "linewidth": 0}
BAND_LINE: Any = {"color": ("#777777", 0.2), "linestyle": "-", "linewidth": 6}
# The x-axis is logarithmic if the largest number exceeds the smallest positive number by more than
# this factor, as with epsilons; the second factor is used if 0 is among the numbers.
FAR = 30.0
FAR_FROM_ZERO = 5.0
# The width in inches of a single panel, of each of a few panels, and of each of many.
ALONE = 4.8
WIDTH = 3.6
NARROW = 2.4
FEW_PANELS = 4
SUFFIXES = (".svg", ".png", ".pdf")
# The longest side of a PNG and its largest number of pixels. Browsers show no side beyond 32,767.
LONGEST, LARGEST = 32_000, 40_000_000
# Up to this many numbers, each number has its own tick.
FEW_TICKS = 6
# A figure has at most this many models: more rows do not fit a page.
MOST = 60


class Point(NamedTuple):
    """A score at a number x (of shots, an epsilon, ...), with its interval or None.

    `floor` is the name and value of the floor that is hardest to beat.
    """

    x: float
    y: float
    interval: tuple[float, float] | None
    chance: float | None = None
    floor: tuple[str, float] | None = None


# The chance or the floor of a point.
Level = Callable[[Point], float | None]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Scores of models along the number named `x`; one score per model if `x` is empty."""

    title: str
    x: str
    y: str
    models: Mapping[str, Sequence[Point]]
    unit: str = "fraction"
    higher_is_better: bool = True


def ranked(panels: Sequence[Panel]) -> list[str]:
    """Return the models of all panels, the best of the first panel last.

    Models that are equal in a panel, or not in it, are ranked by the next panel, finally by name.
    """

    def key(name: str) -> list[float]:
        shown = [(panel, panel.models.get(name)) for panel in panels]
        return [_rank(panel, points[0].y) if points else -math.inf for panel, points in shown]

    names = {name for panel in panels for name in panel.models}
    return sorted(sorted(names, reverse=True), key=key)


def _rank(panel: Panel, value: float) -> float:
    return value if panel.higher_is_better else -value


def levels(panel: Panel, level: Level) -> dict[float, list[float]]:
    """Return chance or the floors of all models at each x, sorted so that the hardest is last."""
    values: dict[float, list[float]] = {}
    for point in (point for points in panel.models.values() for point in points):
        if (value := level(point)) is not None:
            values.setdefault(point.x, []).append(value)
    return {x: sorted(values[x], key=lambda value: _rank(panel, value)) for x in sorted(values)}


def chance(point: Point) -> float | None:
    """Return the chance of a point."""
    return point.chance


def floor(point: Point) -> float | None:
    """Return the value of the floor of a point."""
    return point.floor[1] if point.floor else None


def chart(title: str, panels: Sequence[Panel], looks: Mapping[str, Look]) -> Figure:
    """Return a figure of the panels, with chance and the hardest floors named in its legend.

    Panels of one kind and unit share the axis of scores. Models that are drawn as dots have the
    same order in all panels: the order of the first panel, the best on top. Of more than `MOST`
    models only the best are drawn, and the title says so.
    """
    names = ranked(panels)
    if len(names) > MOST:
        title = f"{title}, the best {MOST} of {len(names):,} models"
        names = names[-MOST:]
        best = [{n: panel.models[n] for n in names if n in panel.models} for panel in panels]
        panels = [replace(p, models=m) for p, m in zip(panels, best, strict=True) if m]
    alike = len({(bool(panel.x), panel.unit) for panel in panels}) == 1
    lines = any(panel.x for panel in panels)
    margin = 0.0 if all(panel.x for panel in panels) else max(text_width(n, 8) for n in names)
    width, height = _width(len(panels)), 2.6 if lines else 0.7 + 0.24 * len(names)
    outer = (width + margin * (not alike), height)
    figure, places = grid(len(panels), outer, margin * alike)
    for axes, panel in zip(places, panels, strict=True):
        if alike and axes is not places[0]:
            axes.sharey(places[0])
            if not panel.x:
                axes.sharex(places[0])
        if panel.x:
            _draw_lines(axes, panel, looks)
        else:
            _draw_dots(axes, panel, names, looks)
    for axes, panel in zip(places, panels, strict=True):
        _label(axes, panel, (width, height), at_left=not alike or is_at_left(axes))
    entitle(figure, title)
    _seat_legend(figure, panels, {name: looks[name] for name in sorted(names) if lines})
    return figure


def save(figure: Figure, file: Path, *, dpi: float = 150) -> list[Path]:
    """Write a figure as `file`.svg, .png and .pdf, and return the three files.

    A PNG that would be too large gets fewer dots per inch. The same figure gives the same bytes if
    `svg.hashsalt` is set, as it is inside `styled`.
    """
    width, height = figure.get_size_inches()
    dpi = min(dpi, LONGEST / max(width, height), math.sqrt(LARGEST / (width * height)))
    add_fonts(figure)
    svg, pdf = BytesIO(), BytesIO()
    # Each savefig of a figure with a layout engine, even the placeholder of
    # `set_layout_engine("none")`, draws it twice.
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    figure._layout_engine = None  # type: ignore[attr-defined]  # noqa: SLF001
    figure.savefig(svg, format="svg", dpi=dpi, metadata={"Date": None})
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    pictures = (svg.getvalue(), figure_png(figure, dpi=dpi), pdf.getvalue())
    files = [file.with_name(file.name + suffix) for suffix in SUFFIXES]
    for one, picture in zip(files, pictures, strict=True):
        write_whole(one, picture)
    return files


def erase(file: Path) -> None:
    """Remove the files that `save` writes for `file`."""
    for suffix in SUFFIXES:
        file.with_name(file.name + suffix).unlink(missing_ok=True)


@contextmanager
def styled() -> Iterator[None]:
    """Set the style for making and saving figures."""
    with rc_context(STYLE), without_glyph_warnings():
        yield


def _width(panels: int) -> float:
    if panels == 1:
        return ALONE
    return WIDTH if panels <= FEW_PANELS else NARROW


def _draw_lines(axes: Axes, panel: Panel, looks: Mapping[str, Look]) -> None:
    names = sorted(panel.models)
    lines = [sorted(panel.models[name]) for name in names]
    colours = [looks[name].colour for name in names]
    ends = [[(point.x, point.y) for point in points] for points in lines]
    axes.add_collection(LineCollection(ends, colors=colours, **CURVE))
    marks = [
        _Mark(point, point.x, point.y, looks[name])
        for name, points in zip(names, lines, strict=True)
        for point in points
    ]
    _draw_marks(axes, marks, "yerr", 1.2)
    _draw_levels(axes, panel, chance, CHANCE)
    _draw_levels(axes, panel, floor, FLOOR)
    numbers = sorted({point.x for points in panel.models.values() for point in points})
    positive = [x for x in numbers if x > 0]
    far = FAR if positive == numbers else FAR_FROM_ZERO
    if positive and positive[-1] > far * positive[0]:
        axes.set_xscale("symlog", linthresh=positive[0])
    if len(numbers) <= FEW_TICKS:
        axes.set_xticks(numbers, [condition(x) for x in numbers])
        axes.minorticks_off()


class _Mark(NamedTuple):
    """A point of a model with its look, and where it is drawn."""

    point: Point
    x: float
    y: float
    look: Look


def _draw_marks(axes: Axes, marks: Sequence[_Mark], bars: str, width: float | None) -> None:
    """Draw the intervals and the marks of points; `bars` is `xerr` or `yerr`.

    There is one artist per colour and per shape: one per model takes three times as long to draw.
    """
    for colour in sorted({mark.look.colour for mark in marks if mark.point.interval}):
        own = [mark for mark in marks if mark.look.colour == colour and mark.point.interval]
        x, y = [one.x for one in own], [one.y for one in own]
        sizes: Any = {bars: _bars([one.point for one in own]), "elinewidth": width}
        axes.errorbar(x, y, fmt="none", ecolor=colour, capsize=2, **sizes)
    for shape in sorted({mark.look.mark for mark in marks}):
        own = [mark for mark in marks if mark.look.mark == shape]
        x, y = [one.x for one in own], [one.y for one in own]
        edges = [one.look.colour for one in own]
        faces = [style(one.look)["markerfacecolor"] for one in own]
        size = style(own[0].look)["markersize"] ** 2
        axes.scatter(x, y, size, faces, marker=shape, edgecolors=edges, linewidths=1.0, zorder=2.5)


def _draw_levels(axes: Axes, panel: Panel, level: Level, line: Mapping[str, Any]) -> None:
    """Draw chance or the floors along x; if models differ, as a band with a line at the hardest."""
    lines = levels(panel, level)
    lowest, hardest = [v[0] for v in lines.values()], [v[-1] for v in lines.values()]
    axes.fill_between(list(lines), lowest, hardest, **BAND)
    axes.plot(list(lines), hardest, **line)


def _draw_dots(axes: Axes, panel: Panel, names: Sequence[str], looks: Mapping[str, Look]) -> None:
    """Draw one score per model, and beside it its own chance and floor."""
    marks = [
        _Mark(point, point.y, height, looks[name])
        for height, name in enumerate(names)
        for point in panel.models.get(name, ())[:1]
    ]
    _draw_marks(axes, marks, "xerr", None)
    for level, line in ((chance, CHANCE), (floor, FLOOR)):
        known = [(value, mark.y) for mark in marks if (value := level(mark.point)) is not None]
        ends = [[(value, y - 0.5), (value, y + 0.5)] for value, y in known]
        axes.add_collection(LineCollection(ends, zorder=2, **line))
    axes.autoscale_view()  # before Matplotlib 3.11 a collection leaves the limits as they are
    axes.set_yticks(range(len(names)), [drawn(name) for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)


def _label(axes: Axes, panel: Panel, size: tuple[float, float], *, at_left: bool) -> None:
    """Name a panel and its axes; a panel that shares its left neighbour's axis needs no names."""
    unit = "%" if panel.unit == "fraction" else panel.unit
    scores = f"{panel.y} ({unit})" + ("" if panel.higher_is_better else ", lower is better")
    width, height = 0.8 * size[0], 0.8 * size[1]
    axes.set_title(fitted(panel.title, width, 9), fontsize=9)
    axes.tick_params(labelsize=8, labelleft=at_left)
    axes.set_xlabel(fitted(panel.x or scores, width, 8), fontsize=8)
    if panel.x and at_left:
        axes.set_ylabel(fitted(scores, height, 8), fontsize=8)
    if panel.unit == "fraction":
        (axes.yaxis if panel.x else axes.xaxis).set_major_formatter(percent)
        # If panels share an axis, its left end is known only after all of them are drawn.
        axes.set_xlim(left=None if panel.x else min(0.0, axes.get_xlim()[0]))


def _seat_legend(figure: Figure, panels: Sequence[Panel], models: Mapping[str, Look]) -> None:
    """Add a legend of the models drawn as lines, of chance and of the floors."""
    points = [p for panel in panels for points in panel.models.values() for p in points]
    entries: list[Any] = [(n, CURVE | {"color": look.colour}) for n, look in models.items()]
    if any(point.chance is not None for point in points):
        entries.append(("chance", CHANCE))
    if floors := sorted({point.floor[0] for point in points if point.floor}):
        entries.append((f"hardest floor: {spaced(' or '.join(floors))}", FLOOR))
    lines = [levels(panel, level) for panel in panels if panel.x for level in (chance, floor)]
    if any(values[0] != values[-1] for found in lines for values in found.values()):
        entries.append(("their range over the models", BAND_LINE))
    if not entries:
        return
    axes, handles = seat_labels(figure, [label for label, _ in entries])
    styles: Any = {f"{key}s": [line[key] for _, line in entries] for key in CHANCE}
    axes.add_collection(LineCollection(handles, **styles))
    middles = zip(np.mean(handles, 1).tolist(), models.values(), strict=False)
    marks = [_Mark(Point(x, y, None), x, y, look) for (x, y), look in middles]
    _draw_marks(axes, marks, "xerr", None)


def _bars(points: Sequence[Point]) -> list[list[float]]:
    """Return how far the intervals reach below and above their scores, [2, points]."""
    ends = [p.interval or (p.y, p.y) for p in points]
    below = [max(p.y - low, 0.0) for p, (low, _) in zip(points, ends, strict=True)]
    above = [max(high - p.y, 0.0) for p, (_, high) in zip(points, ends, strict=True)]
    return [below, above]
