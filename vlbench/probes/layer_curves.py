"""Figures of scores by layer."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from vlbench.boards.board import Board
from vlbench.drawing.layouts import entitle, grid, percent, seat_legend
from vlbench.drawing.looks import CHANCE, Look, style
from vlbench.errors import spaced
from vlbench.results import Score


def layers(board: Board, title: str, looks: Mapping[str, Look]) -> Figure | None:
    """Return the primary score of each model by the depth of the layer, with 95 % intervals.

    Depth is from 0, the first layer, to 1, the output, since models differ in how many they have.
    None where no row has scores by layer.
    """
    wanted = {key: value for key, value in board.primary.get("at", {}).items() if key != "layer"}
    curves = {
        row.model: [s for s in row.scores if _is_of(s, board.primary["metric"], wanted)]
        for row in board.results
        if row.status == "ok"
    }
    there = {name: scores for name, scores in sorted(curves.items()) if len(scores) > 1}
    if not there:
        return None
    figure, (panel,) = grid(1, (5.6, 3.4))
    for name, scores in there.items():
        depth = [i / (len(scores) - 1) for i in range(len(scores))]
        values = [score.value for score in scores]
        ends = [score.ci95 or (score.value, score.value) for score in scores]
        panel.plot(depth, values, label=name, linewidth=1.2, **style(looks[name]))
        low, high = zip(*ends, strict=True)
        panel.fill_between(depth, low, high, color=looks[name].colour, alpha=0.15, linewidth=0)
    chance = next((s.chance for scores in there.values() for s in scores), None)
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


def _is_of(score: Score, metric: str, at: Mapping[str, object]) -> bool:
    rest = {key: value for key, value in score.at.items() if key != "layer"}
    return score.metric == metric and "layer" in score.at and rest == at
