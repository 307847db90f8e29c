"""Figures of the accuracy of attention heads by layer, as figure 3 of ACL 2020.acl-main.469."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vlbench.drawing.layouts import entitle, fitted, grid, is_at_left, percent, seat_legend
from vlbench.drawing.looks import CHANCE, FLOOR, Look, style
from vlbench.errors import spaced
from vlbench.results import Result, Score, matching

# A row of the table of heads, and a function that reads columns of a table stored with a row of a
# board.
Head = Mapping[str, Any]
ReadTable = Callable[[Result, str, Sequence[str]], Sequence[Head]]

COLUMNS = ("layer", "head", "accuracy", "active")

# The paper's baseline is drawn if regions have scores, otherwise the largest-region baseline.
BASELINES = ("most_confident_region", "largest_region")

# The heads of a layer are drawn side by side, over this fraction of the step to the next layer.
SPREAD = 0.5

# Active heads, and heads whose activity is unknown, have the model's colour.
LABELS = {
    True: "head that looks at the image",
    False: "head that does not look at the image",
    None: "head",
}
OTHER: Any = {"s": 10, "color": "#aaaaaa", "marker": "o", "lw": 0}


def heads(row: Result, title: str, read_table: ReadTable, look: Look) -> dict[str, Figure]:
    """Return the figure of a row, under an empty name; none if it has no table of heads."""
    table = read_table(row, "heads", COLUMNS) if "heads" in row.artifacts else []
    return {"": head_figure(row, table, f"{title}: {row.model}", look)} if table else {}


def head_figure(row: Result, heads: Sequence[Head], title: str, look: Look) -> Figure:
    """Return the figure of a row: a panel per relation, its heads and the floors of its score."""
    names = list(dict.fromkeys(head.get("relation", "") for head in heads))
    figure, panels = grid(len(names), (5.2, 3.2) if len(names) == 1 else (2.4, 2.1))
    legend: dict[str, Any] = {}
    for panel, name in zip(panels, names, strict=True):
        if panel is not panels[0]:
            panel.sharex(panels[0])
            panel.sharey(panels[0])
        _draw_heads(panel, [head for head in heads if head.get("relation", "") == name], look)
        at = {"relation": name} if name else {}
        for score in matching(row.scores, {"metric": "best_head_accuracy", "at": at}):
            _draw_floors(panel, score)
        panel.set_title(fitted(name, 2.0, 9), fontsize=9)
        panel.tick_params(labelsize=7, labelleft=is_at_left(panel))
        panel.set_xlabel("layer, from 0", fontsize=8)
        # Panels may lack active heads, or inactive heads.
        handles, labels = panel.get_legend_handles_labels()
        legend |= dict(zip(labels, handles, strict=True))
    figure.supylabel("accuracy (%)", fontsize=8)
    entitle(figure, title)
    seat_legend(figure, [legend[label] for label in sorted(legend)], sorted(legend))
    return figure


def _draw_heads(panel: Axes, heads: Sequence[Head], look: Look) -> None:
    """Draw active heads as large marks of the model, inactive heads as small grey dots."""
    most = max(1, *(head["head"] for head in heads))
    groups: dict[bool | None, list[Head]] = {}
    for head in heads:
        groups.setdefault(head["active"], []).append(head)
    for active in (False, True, None):
        points = groups.get(active, [])
        if points:
            places = [head["layer"] + SPREAD * (head["head"] / most - 0.5) for head in points]
            accuracies = [head["accuracy"] for head in points]
            mark = OTHER if active is False else _mark(look)
            panel.scatter(places, accuracies, alpha=0.8, label=LABELS[active], **mark)
    panel.set_ylim(0, 1)
    panel.yaxis.set_major_formatter(percent)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.grid(visible=True, axis="y", color="#dddddd", linewidth=0.5)


def _mark(look: Look) -> dict[str, Any]:
    face = {"facecolor": style(look)["markerfacecolor"], "edgecolor": look.colour}
    return {"s": 34, "marker": look.mark, "lw": 0.8} | face


def _draw_floors(panel: Axes, score: Score) -> None:
    """Draw the floors of a score: baselines that ignore the words."""
    name = next((name for name in BASELINES if name in score.floors), "")
    for level, line in ((name, FLOOR), ("random_region", CHANCE)):
        if level in score.floors:
            panel.axhline(score.floors[level], label=spaced(level), **line)
