"""Charts of scores with their intervals, as SVG and PNG; the same scores give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vlbench.files import write_whole
from vlbench.leaderboard.texts import drawn

# Colours that colour-blind readers can tell apart (Okabe and Ito 2008); marks tell further models
# of the same colour apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#888888")
MARKS = ("o", "s", "^", "D", "v")

# A fixed salt makes the identifiers inside an SVG depend on what is drawn alone.
STYLE: Any = {
    "svg.hashsalt": "vlbench",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.linewidth": 0.6,
}

COLUMNS = 3
PANEL = (3.6, 2.7)  # inches

# The x-axis is logarithmic where the largest number is more than this many times the smallest
# positive one, as it is for epsilons; the second limit holds where 0 is among the numbers.
FAR = 30.0
FAR_FROM_ZERO = 5.0

# Up to this many numbers, each has a tick of its own.
FEW_TICKS = 6


class Point(NamedTuple):
    """A score at a number x (of shots, an epsilon, ...), with its interval or None."""

    x: float
    y: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Scores of models along the number named `x`; one score per model where `x` is empty."""

    title: str
    x: str
    y: str
    models: Mapping[str, Sequence[Point]]
    chance: Sequence[tuple[float, float]] = ()


def chart(title: str, panels: Sequence[Panel]) -> Figure:
    """Return a figure of the panels; a model has the same colour and mark in all of them."""
    names = sorted({name for panel in panels for name in panel.models})
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    lines = any(panel.x for panel in panels)
    height = max(PANEL[1], 0.8 + 0.25 * len(names)) if not lines else PANEL[1]
    figure = Figure(figsize=(PANEL[0] * columns + 2.0 * lines, height * rows + 0.4))
    figure.set_layout_engine("constrained")
    figure.suptitle(drawn(title), fontsize=11)
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, panel in zip(grid, panels, strict=False):
        (_draw_lines if panel.x else _draw_dots)(axes, panel, names)
        axes.set_title(drawn(panel.title), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    if lines:
        handles = {h.get_label(): h for axes in grid for h in axes.get_legend_handles_labels()[0]}
        figure.legend(handles=list(handles.values()), loc="outside right upper", fontsize=8)
    return figure


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of a size in inches, and its axes with lines only at the left and bottom."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Figure, file: Path, *, dpi: int = 150) -> list[Path]:
    """Write a figure as `file`.svg and `file`.png, and return the two files.

    The same figure gives the same bytes where `svg.hashsalt` is set, as it is inside `styled`.
    """
    written = []
    for suffix in (".svg", ".png"):
        content = BytesIO()
        dated = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(content, format=suffix[1:], dpi=dpi, metadata=dated)
        written.append(file.with_name(file.name + suffix))
        write_whole(written[-1], content.getvalue())
    return written


def erase(file: Path) -> None:
    """Remove the files that `save` writes for `file`."""
    for suffix in (".svg", ".png"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def styled() -> Any:
    """Return the context manager in which figures are made and saved."""
    return rc_context(STYLE)


def look(name: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the colour and mark of one of several models."""
    i = names.index(name)
    mark = MARKS[(i // len(COLOURS) + i) % len(MARKS)]
    return {"color": COLOURS[i % len(COLOURS)], "marker": mark, "markersize": 4.5}


def _draw_lines(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    numbers = sorted({point.x for points in panel.models.values() for point in points})
    for name in names:
        points = sorted(panel.models.get(name, ()))
        if points:
            xs, ys = [p.x for p in points], [p.y for p in points]
            axes.errorbar(
                xs,
                ys,
                yerr=_bars(points),
                label=drawn(name),
                lw=1.2,
                capsize=2,
                **look(name, names),
            )
    if panel.chance:
        axes.plot(*zip(*sorted(panel.chance), strict=True), "--", c="grey", lw=1, label="chance")
    positive = [x for x in numbers if x > 0]
    far = FAR if positive == numbers else FAR_FROM_ZERO
    if positive and positive[-1] > far * positive[0]:
        axes.set_xscale("symlog", linthresh=positive[0])
    if len(numbers) <= FEW_TICKS:
        axes.set_xticks(numbers, [f"{x:.2g}" for x in numbers])
    axes.set_xlabel(drawn(panel.x), fontsize=8)
    axes.set_ylabel(drawn(panel.y), fontsize=8)


def _draw_dots(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    """Draw one score per model, the highest on top."""
    ranked = sorted(panel.models, key=lambda name: panel.models[name][0].y)
    for height, name in enumerate(ranked):
        point = panel.models[name][0]
        bars, style = _bars([point]), look(name, names)
        axes.errorbar([point.y], [height], xerr=bars, ls="none", capsize=2, **style)
    if panel.chance:
        axes.axvline(panel.chance[0][1], ls="--", c="grey", lw=1)
        place = axes.get_xaxis_transform()
        axes.text(panel.chance[0][1], 0.01, " chance", transform=place, fontsize=7, c="grey")
    axes.set_yticks(range(len(ranked)), [drawn(name) for name in ranked])
    axes.set_ylim(-0.6, len(ranked) - 0.4)
    axes.set_xlabel(drawn(panel.y), fontsize=8)


def _bars(points: Sequence[Point]) -> list[list[float]]:
    """Return how far the intervals reach below and above their scores, [2, points]."""
    ends = [p.interval or (p.y, p.y) for p in points]
    below = [max(p.y - low, 0.0) for p, (low, _) in zip(points, ends, strict=True)]
    above = [max(high - p.y, 0.0) for p, (_, high) in zip(points, ends, strict=True)]
    return [below, above]
