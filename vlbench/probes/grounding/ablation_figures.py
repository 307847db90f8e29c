"""Figures of `ablation`: the drop of each head, and of each window of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vlbench.drawing.layouts import entitle, grid, percent, seat_legend
from vlbench.drawing.looks import CHANCE, Look, style
from vlbench.probes.grounding.rank_tests import LEVEL
from vlbench.results import Result

# A row of the table of drops, and a function that reads columns of a table stored with a row of a
# board.
Drop = Mapping[str, Any]
ReadTable = Callable[[Result, str, Sequence[str]], Sequence[Drop]]

COLUMNS = ("metric", "cut", "layer", "head", "value", "low", "high")

# The layer with the largest drop, if p among random heads is at most the level.
TOLD = "p <= .05 among random heads"
RING: Any = {"s": 26, "facecolors": "white", "edgecolors": "black", "linewidths": 1.2}


def drops(row: Result, title: str, read_table: ReadTable, look: Look) -> dict[str, Figure]:
    """Return a heat map of single heads and a panel per kind of window; empty without a table."""
    table = read_table(row, "drops", COLUMNS) if "drops" in row.artifacts else []
    heads = [drop for drop in table if drop["cut"] == "head"]
    layers = [drop for drop in table if drop["layer"] is not None and drop["cut"] != "head"]
    marked = any(drop["cut"] == "largest layer" and drop["value"] <= LEVEL for drop in table)
    named = f"{title}: {row.model}"
    figures = {"heads": _heat_map(heads, named)} if heads else {}
    return figures | ({"layers": _curves(layers, named, look, marked=marked)} if layers else {})


def _heat_map(drops: Sequence[Drop], title: str) -> Figure:
    """Return the drop of each head: rows are layers, the first at the bottom; columns are heads."""
    shape = (1 + max(drop["layer"] for drop in drops), 1 + max(drop["head"] for drop in drops))
    values = np.full(shape, np.nan)
    for drop in drops:
        values[drop["layer"], drop["head"]] = drop["value"]
    most = max(float(np.nanmax(np.abs(values))), 0.01)
    figure = Figure((max(4.0, 0.3 * shape[1] + 1.8), 0.3 * shape[0] + 1.2), layout="constrained")
    panel = figure.subplots()
    image = panel.imshow(
        values, cmap="RdBu_r", vmin=-most, vmax=most, origin="lower", aspect="auto"
    )
    bar = figure.colorbar(image, ax=panel, format=percent)
    bar.set_label("drop of accuracy (points)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    panel.set(xlabel="head, from 0", ylabel="layer, from 0")
    _whole_numbers(panel)
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    entitle(figure, title)
    return figure


def _curves(drops: Sequence[Drop], title: str, look: Look, *, marked: bool) -> Figure:
    """Return the drop by the first ablated layer, with a panel per kind of part.

    If `marked`, the layer with the largest drop has a ring.
    """
    kinds = list(dict.fromkeys(drop["cut"] for drop in drops))
    figure, panels = grid(len(kinds), (3.6, 2.6))
    legend: dict[str, Any] = {}
    for panel, kind in zip(panels, kinds, strict=True):
        if panel is not panels[0]:
            panel.sharey(panels[0])
        of_kind = [drop for drop in drops if drop["cut"] == kind]
        places, values = ([drop[name] for drop in of_kind] for name in ("layer", "value"))
        panel.plot(places, values, label="drop, with its 95 % interval", lw=1.2, **style(look))
        low, high = ([drop[end] for drop in of_kind] for end in ("low", "high"))
        panel.fill_between(places, low, high, color=look.colour, alpha=0.15, linewidth=0)
        if marked and kind == "layer":
            largest = max(of_kind, key=lambda drop: drop["value"])
            panel.scatter(largest["layer"], largest["value"], label=TOLD, zorder=3, **RING)
        panel.axhline(0, **CHANCE)
        panel.set_title(kind, fontsize=9)
        panel.set_xlabel("layer, from 0" if kind == "layer" else "first layer, from 0", fontsize=8)
        panel.yaxis.set_major_formatter(percent)
        _whole_numbers(panel)
        legend |= dict(zip(*panel.get_legend_handles_labels()[::-1], strict=True))
    figure.supylabel("drop of accuracy (points)", fontsize=8)
    entitle(figure, title)
    seat_legend(figure, [*legend.values()], [*legend])
    return figure


def _whole_numbers(panel: Axes) -> None:
    panel.tick_params(labelsize=7)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.xaxis.label.set_fontsize(8)
    panel.yaxis.label.set_fontsize(8)
