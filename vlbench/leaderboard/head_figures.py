"""Figures of the accuracy of attention heads by layer, as figure 3 of ACL 2020.acl-main.469.

A row with a table of heads has a figure, with a panel per relation where the table has relations.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from vlbench.boards import read_board
from vlbench.errors import DataError
from vlbench.files import safe_name
from vlbench.leaderboard.artifacts import read_table
from vlbench.leaderboard.charts import save
from vlbench.leaderboard.texts import drawn
from vlbench.results import Result, Score, matching

# A row of the table of heads.
Head = Mapping[str, Any]

COLUMNS = ("layer", "head", "accuracy", "active")

# The paper's baseline is drawn where regions have scores, otherwise that of the largest region.
BASELINES = ("most_confident_region", "largest_region")

# The heads of a layer are drawn side by side, over this fraction of the step to the next layer.
SPREAD = 0.5

ACTIVE = {"s": 34, "color": "#08519c", "label": "head that looks at the image"}
OTHER = {"s": 9, "color": "#9ecae1", "label": "head that does not"}
UNKNOWN = {"s": 34, "color": "#08519c", "label": "head"}


def draw_heads(output: Path) -> list[Path]:
    """Write `figures/<task>/<model>.svg` and `.png` for each ok row with a table of heads.

    A row whose table is not in the folder, or is not the one that the row was written with, has no
    figure; why is logged. Returns the files.
    """
    written = []
    for file in sorted(output.glob("*.json")):
        board = read_board(file)
        for row in board.results if board else ():
            if row.status == "ok" and "heads" in row.artifacts:
                written += _draw_row(output, file.stem, row)
    return written


def _draw_row(output: Path, task: str, row: Result) -> list[Path]:
    """Write the figure of one row, if its table can be read."""
    try:
        heads = read_table(output, row, "heads", COLUMNS)
    except DataError as error:
        logging.getLogger(__name__).warning("%s: no figure of %s: %s", task, row.model, error)
        return []
    return _draw(output / "figures" / task / safe_name(row.model), row, heads) if heads else []


def _draw(stem: Path, row: Result, heads: Sequence[Head]) -> list[Path]:
    """Write the figure of one row; the same row gives the same bytes."""
    with rc_context({"svg.hashsalt": "vlbench"}):
        return save(head_figure(row, heads, f"{stem.parent.name}: {row.model}"), stem, dpi=130)


def head_figure(row: Result, heads: Sequence[Head], title: str) -> Figure:
    """Return the figure of a row: a panel per relation, its heads and the floors of its score."""
    names = list(dict.fromkeys(head.get("relation", "") for head in heads))
    across = min(len(names), 5)
    down = -(-len(names) // across)
    size = (5.2, 3.6) if len(names) == 1 else (2.5 * across, 2.4 * down + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for panel, name in zip(panels.flat, names, strict=False):
        _panel(panel, [head for head in heads if head.get("relation", "") == name])
        at = {"relation": name} if name else {}
        for score in matching(row.scores, {"metric": "best_head_accuracy", "at": at}):
            _levels(panel, score)
        panel.set_title(drawn(name), fontsize=9)
    for panel in panels.flat[len(names) :]:
        panel.axis("off")
    # The legend is made of all panels: one may have no active heads, another no inactive ones.
    known = [zip(*panel.get_legend_handles_labels()[::-1], strict=True) for panel in panels.flat]
    handles = dict(sorted({label: handle for pairs in known for label, handle in pairs}.items()))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=7)
    figure.suptitle(drawn(title), fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("layer, from 0", fontsize=8)
    figure.supylabel("accuracy", fontsize=8)
    return figure


def _panel(panel: Any, heads: Sequence[Head]) -> None:
    """Draw heads that look at the image as large dark dots, others as small light ones."""
    most = max(1, *(head["head"] for head in heads))
    groups: dict[bool | None, list[Head]] = {}
    for head in heads:
        groups.setdefault(head["active"], []).append(head)
    for active, style in ((False, OTHER), (True, ACTIVE), (None, UNKNOWN)):
        points = groups.get(active, [])
        if points:
            places = [head["layer"] + SPREAD * (head["head"] / most - 0.5) for head in points]
            panel.scatter(places, [head["accuracy"] for head in points], alpha=0.8, lw=0, **style)
    panel.set_ylim(0, 1)
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.tick_params(labelsize=7)
    panel.grid(visible=True, axis="y", color="#dddddd", linewidth=0.5)
    panel.spines[["top", "right"]].set_visible(False)


def _levels(panel: Any, score: Score) -> None:
    """Draw the floors of a score: baselines that read no word."""
    name = next((name for name in BASELINES if name in score.floors), "")
    for level, style in ((name, "--"), ("random_region", ":")):
        if level in score.floors:
            place, label = score.floors[level], drawn(level.replace("_", " "))
            panel.axhline(place, color="#cb181d", linestyle=style, linewidth=1, label=label)
