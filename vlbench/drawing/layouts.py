"""Layouts of figures: a grid of panels without empty cells, and texts and a legend that fit.

Names on boards may be long: a title is broken into lines, and a figure is widened for names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox, BboxBase

from vlbench.errors import printed

# The most panels in a row: ACROSS, or one of MORE_ACROSS with which all rows are full.
ACROSS = 3
MORE_ACROSS = (3, 4, 5)

TITLE = 11  # points
LEGEND = 8  # points
# The font size and the height of a row of a legend, in inches.
EM = LEGEND / 72
ROW = 1.55 * EM

# Positions of a name beside its point: right (or left) of it, and above (or below) it.
DIAGONAL = ((1, 1), (-1, 1), (1, -1), (-1, -1))
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), *DIAGONAL)
GAP = 5  # points


def grid(count: int, panel: tuple[float, float], margin: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels, each of a size in inches, and their axes row by row.

    If rows differ in the number of panels, panels in shorter rows are wider, so no cell is empty.
    `margin` is for the names at the left of the first column.
    """
    across = next((n for n in MORE_ACROSS if count % n == 0 and count > n), ACROSS)
    down = math.ceil(count / across)
    rows = [count // down + (row < count % down) for row in range(down)]
    figure = Figure((panel[0] * rows[0] + margin, panel[1] * down + 0.3), layout="constrained")
    # A separate subfigure for each row: in a single grid, names beside the panels of a row take
    # space from other rows.
    bands = figure.subfigures(down, 1, squeeze=False).flat
    axes = [
        axis
        for band, n in zip(bands, rows, strict=True)
        for axis in band.subplots(1, n, squeeze=False).flat
    ]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def is_at_left(axes: Axes) -> bool:
    """Return whether a panel is in the first column, or in no grid."""
    cell = axes.get_subplotspec()
    return cell is None or cell.is_first_col()


def entitle(figure: Figure, title: str) -> None:
    """Put a title above the panels, in as many lines as it needs."""
    width = figure.get_figwidth() - 0.2
    lines = fitted(title, width, TITLE)
    figure.suptitle(lines, fontsize=TITLE)
    figure.set_figheight(figure.get_figheight() + 1.2 * TITLE / 72 * lines.count("\n"))


def seat_legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Put a legend below the panels, and enlarge the figure so that the whole legend is visible."""
    if not handles:
        return
    legend = figure.legend(
        handles,
        [drawn(label) for label in labels],
        loc="outside lower center",
        ncols=len(_columns(labels, figure.get_figwidth())),
        fontsize=LEGEND,
        frameon=False,
    )
    box = legend.get_window_extent()
    figure.set_figwidth(max(figure.get_figwidth(), box.width / figure.dpi + 0.2))
    figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)


def seat_labels(figure: Figure, labels: Sequence[str]) -> tuple[Axes, list[Any]]:
    """Write the labels of a legend below the panels, and enlarge the figure by the legend's size.

    Returns the legend's axes and, for each label, the left and the right end of its handle. A
    Matplotlib legend of 100 labels takes twice as long: each drawing computes its layout anew.
    """
    parts = _columns(labels, figure.get_figwidth())
    columns, rows = [max(part) for part in parts], [*map(len, parts)]
    width, height = max(figure.get_figwidth(), sum(columns) + 0.2), ROW * (rows[0] + 0.5)
    figure.set_size_inches(width, figure.get_figheight() + height)
    top = height / figure.get_figheight()
    figure.set_layout_engine("constrained", rect=(0, top, 1, 1 - top))
    axes = figure.add_axes((0, 0, 1, top), xlim=(0, width), ylim=(-height, 0))
    axes.set_axis_off()
    x = np.repeat(np.cumsum([(width - sum(columns)) / 2 + EM, *columns[:-1]]), rows)
    y = -ROW * np.concatenate([np.arange(n) + 0.5 for n in rows])
    for left, middle, label in zip(x, y, labels, strict=True):
        axes.text(left + 2.8 * EM, middle - 0.35 * EM, drawn(label), fontsize=LEGEND)
    return axes, np.stack([x, y, x + 2 * EM, y], 1).reshape(-1, 2, 2).tolist()


def _columns(labels: Sequence[str], width: float) -> list[Any]:
    """Return the widths in inches of a legend's labels, in as many columns as fit a width."""
    beside = 5 * EM  # the handle and the gaps around it
    widths = [text_width(label, LEGEND) + beside for label in labels]
    for columns in range(len(labels), 1, -1):
        parts = np.array_split(widths, columns)
        if sum(part.max() for part in parts) <= width:
            return parts
    return [widths]


def name_points(
    axes: Axes,
    places: Iterable[tuple[float, float]],
    names: Sequence[str],
    sides: Sequence[tuple[int, int]] = SIDES,
) -> None:
    """Write names beside their points, each where it covers fewest other names and points.

    `sides` are the positions of SIDES that a name may have. Call it last: a later title or legend
    would move the points away from their names.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    points = [(float(x), float(y)) for x, y in places]
    boxes = [
        Bbox.from_extents(x - 4, y - 4, x + 4, y + 4) for x, y in axes.transData.transform(points)
    ]
    for place, name in zip(points, names, strict=True):
        options = [(text, text.get_window_extent()) for text in _beside(axes, place, name, sides)]
        kept, box = min(options, key=lambda option: _covers(option[1], axes.bbox, boxes))
        for text in {text for text, _ in options} - {kept}:
            text.remove()
        boxes.append(box)


def percent(value: float, _: float = 0.0) -> str:
    """Return a fraction as the label of a tick, in percent."""
    return f"{100 * value:.4g}"


def fitted(text: str, width: float, size: float) -> str:
    """Return a text for figures, broken into lines of at most `width` inches."""
    length = len(text)
    while length > 1 and text_width(fill(text, length), size) > width:
        length -= math.ceil(length / 20)
    return drawn(fill(text, length) if length < len(text) else text)


def drawn(text: str) -> str:
    """Return a text that a figure shows literally: a dollar sign starts no formula."""
    return printed(text).replace("$", r"\$")


@cache
def text_width(text: str, size: float) -> float:
    """Return the width of a text in inches; `size` is in points."""
    figure = Figure()
    box = figure.add_artist(Text(0, 0, drawn(text), fontsize=size)).get_window_extent()
    return float(box.width) / figure.dpi


def _beside(
    axes: Axes, place: tuple[float, float], name: str, sides: Sequence[tuple[int, int]]
) -> list[Text]:
    """Return a name drawn at each of some sides of a point."""
    return [
        axes.annotate(
            drawn(name),
            place,
            xytext=(GAP * right, GAP * up),
            textcoords="offset points",
            ha=("center", "left", "right")[right],
            va=("center", "bottom", "top")[up],
            fontsize=LEGEND,
            in_layout=False,
        )
        for right, up in sides
    ]


def _covers(box: Bbox, whole: BboxBase, boxes: Sequence[Bbox]) -> int:
    """Return how many boxes a box covers; more than all of them if it is not inside the whole."""
    inside = whole.contains(*box.min) and whole.contains(*box.max)
    return int(box.count_overlaps(boxes)) + (0 if inside else len(boxes) + 1)
