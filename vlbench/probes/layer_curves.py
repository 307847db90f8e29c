"""Figures of scores by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vlbench.boards.board import Board
from vlbench.drawing.layouts import entitle, fitted, grid, is_at_left, percent, seat_legend
from vlbench.drawing.looks import CHANCE, FLOOR, Look, style
from vlbench.errors import spaced
from vlbench.results import Score

# Line styles of the accuracy of the probe on the scores, and of the floors of reading.
SAID_FITTED: Any = {"color": "black", "linestyle": "-.", "linewidth": 1.0}
FLOORS: Mapping[str, Any] = {
    "raw_pixels": FLOOR,
    "random_weights": {"color": "#222222", "linestyle": (0, (6, 2)), "linewidth": 1.0},
}

# The most stages of a panel whose names are drawn.
MOST_NAMES = 16


def layers(board: Board, title: str, looks: Mapping[str, Look]) -> Figure | None:
    """Return the primary score of each model by the depth of the layer, with 95 % intervals.

    Depth is from 0, the first layer, to 1, the output, because models differ in their number of
    layers. None if no row has scores by layer.
    """
    at = {key: value for key, value in board.primary.get("at", {}).items() if key != "layer"}
    curves = {
        row.model: [s for s in row.scores if _is_of(s, board.primary["metric"], at)]
        for row in board.results
        if row.status == "ok"
    }
    by_model = {name: scores for name, scores in sorted(curves.items()) if len(scores) > 1}
    if not by_model:
        return None
    figure, (panel,) = grid(1, (5.6, 3.4))
    for name, scores in by_model.items():
        depth = [i / (len(scores) - 1) for i in range(len(scores))]
        _draw_curve(panel, depth, scores, name, looks[name])
    chance = next((s.chance for scores in by_model.values() for s in scores), None)
    if chance is not None:
        panel.axhline(chance, label="chance", **CHANCE)
    panel.yaxis.set_major_formatter(percent)
    panel.set_xlabel("depth of the layer (0: first, 1: output)", fontsize=8)
    panel.set_ylabel(spaced(board.primary["metric"]), fontsize=8)
    panel.tick_params(labelsize=8)
    entitle(figure, title)
    handles, labels = panel.get_legend_handles_labels()
    seat_legend(figure, handles, labels)
    return figure


def stages(board: Board, title: str, looks: Mapping[str, Look]) -> Figure | None:
    """Return the accuracies of `readout` at each stage of each model, with floors and `said`.

    Each model has a panel with the layers from left to right; `said_fitted`, read from the scores
    of all classes, is last. None if no row has readings.
    """
    rows = {row.model: row for row in board.results if row.status == "ok"}
    by_model = {name: rows[name].scores for name in sorted(rows) if _read(rows[name].scores)}
    if not by_model:
        return None
    figure, panels = grid(len(by_model), (4.4, 3.2))
    for panel, (name, scores) in zip(panels, by_model.items(), strict=True):
        if panel is not panels[0]:
            panel.sharey(panels[0])
        by_metric, read = {score.metric: score for score in scores}, _read(scores)
        places = [*range(len(read) + 1)]
        _draw_curve(panel, places, [*read, by_metric["said_fitted"]], "read", looks[name])
        panel.axhline(by_metric["said"].value, label="said", color="black", linewidth=1.2)
        panel.axhline(by_metric["said_fitted"].value, label="said, fitted", **SAID_FITTED)
        panel.axhline(by_metric["said"].chance or 0, label="chance", **CHANCE)
        for floor, line in FLOORS.items():
            if all(floor in score.floors for score in read):
                values = [score.floors[floor] for score in read]
                panel.plot(places[:-1], values, label=spaced(floor), **line)
        names = [*(fitted(str(score.at["layer"]), 1.2, 7) for score in read), "scores"]
        step = -(-len(names) // MOST_NAMES)
        ticks = [i for i in places if (places[-1] - i) % step == 0]
        panel.set_xticks(ticks, [names[i] for i in ticks], rotation=60, ha="right")
        panel.tick_params(labelsize=7)
        panel.yaxis.set_major_formatter(percent)
        panel.set_title(fitted(name, 3.6, 9), fontsize=9)
        if is_at_left(panel):
            panel.set_ylabel("accuracy (%)", fontsize=8)
    entitle(figure, title)
    entries = {
        label: handle
        for panel in panels
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    seat_legend(figure, [*entries.values()], [*entries])
    return figure


def _draw_curve(
    panel: Axes, places: Sequence[float], scores: Sequence[Score], label: str, look: Look
) -> None:
    """Draw scores at places along x, with their 95 % intervals as a band."""
    panel.plot(places, [score.value for score in scores], label=label, lw=1.2, **style(look))
    low, high = zip(*(score.ci95 or (score.value, score.value) for score in scores), strict=True)
    panel.fill_between(places, low, high, color=look.colour, alpha=0.15, linewidth=0)


def _read(scores: Sequence[Score]) -> list[Score]:
    return [score for score in scores if score.metric == "read"]


def _is_of(score: Score, metric: str, at: Mapping[str, object]) -> bool:
    rest = {key: value for key, value in score.at.items() if key != "layer"}
    return score.metric == metric and "layer" in score.at and rest == at
