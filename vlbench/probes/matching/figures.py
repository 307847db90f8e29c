"""Figures of replies: what models say, what is right, and what lies above the response bias."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import ascii_uppercase
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vlbench.boards.board import Board
from vlbench.drawing.layouts import drawn, entitle, fitted, grid, is_at_left, percent, seat_legend
from vlbench.drawing.looks import CHANCE, Look
from vlbench.errors import spaced
from vlbench.metrics.response_bias import FLOOR
from vlbench.results import Result, Score

ReadTable = Callable[..., list[dict[str, Any]]]

REPLIES = ("category", "options", "said", "right", "replies")

# If there are more categories, only the first are drawn.
MOST_CATEGORIES = 24


def above_response_bias(board: Board, title: str, looks: Mapping[str, Look]) -> Figure | None:
    """Return the primary score of each model, its response bias and chance, by the gain over it.

    A filled mark is a gain above 0 by the score's test. None if no row has a response bias.
    """
    metric = board.primary["metric"]
    both = {row.model: _primary_and_gain(row, metric) for row in board.results}
    pairs = {name: pair for name, pair in both.items() if pair}
    if not pairs:
        return None
    names = sorted(pairs, key=lambda name: pairs[name][1].value)
    figure, (panel,) = grid(1, (5.0, 0.7 + 0.26 * len(names)), 0.5)
    for place, name in enumerate(names):
        score, gain = pairs[name]
        colour = looks[name].colour
        is_above = gain.value > 0 and gain.verdict.startswith("finding")
        low, high = score.ci95 or (score.value, score.value)
        panel.plot([score.floors[FLOOR], score.value], [place] * 2, color="#bbbbbb", lw=1.0)
        panel.plot([low, high], [place] * 2, color=colour, lw=1.6)
        panel.plot(score.value, place, "o", ms=6, color=colour, mfc=colour if is_above else "white")
        panel.plot(score.floors[FLOOR], place, "|", ms=10, mew=2.0, color="#222222")
    if (chance := pairs[names[0]][0].chance) is not None:
        panel.axvline(chance, **CHANCE)
    panel.set_yticks(range(len(names)), [drawn(name) for name in names], fontsize=8)
    panel.set_ylim(-0.7, len(names) - 0.3)
    panel.xaxis.set_major_formatter(percent)
    panel.set_xlabel(f"{spaced(metric)} (%), in the order of the gain", fontsize=8)
    panel.tick_params(axis="x", labelsize=8)
    entitle(figure, title)
    marks = [
        panel.plot([], [], "o", color="#555555", ms=6)[0],
        panel.plot([], [], "o", color="#555555", mfc="white", ms=6)[0],
        panel.plot([], [], "|", color="#222222", ms=10, mew=2.0)[0],
        panel.plot([], [], **CHANCE)[0],
    ]
    words = ["score, above the response bias", "score, not above it", "response bias", "chance"]
    seat_legend(figure, marks, words)
    return figure


def _primary_and_gain(row: Result, metric: str) -> tuple[Score, Score] | None:
    """Return a row's primary score and its gain over the response bias; None without them."""
    by_metric = {score.metric: score for score in row.scores if not score.at}
    gain = by_metric.get(f"{metric}_gain_over_response_bias")
    score = by_metric.get(metric)
    if row.status != "ok" or gain is None or score is None or FLOOR not in score.floors:
        return None
    return score, gain


def replies(row: Result, title: str, look: Look, read_table: ReadTable) -> Figure | None:
    """Return how often each label was said, and was right, by category.

    Bars are replies, ticks right answers; the last bar is replies without a label. None if the row
    has no labels.
    """
    if "replies" not in row.artifacts:
        return None
    counts: dict[tuple[str, int], np.ndarray[Any, Any]] = {}
    for line in read_table(row, "replies", REPLIES):
        size = line["options"] + 1
        both = counts.setdefault((line["category"], line["options"]), np.zeros((2, size)))
        both[0, line["said"] - 1] += line["replies"]
        both[1, line["right"] - 1] += line["replies"]
    pairs = sorted(counts)[:MOST_CATEGORIES]
    figure, panels = grid(len(pairs), (1.9, 1.5))
    for panel, (category, options) in zip(panels, pairs, strict=True):
        said, right = counts[category, options] / counts[category, options][0].sum()
        places = np.arange(options + 1)
        panel.bar(places, said, width=0.75, color=look.colour, alpha=0.75)
        panel.plot(places[:-1], right[:-1], "_", ms=15, mew=2.0, color="#222222")
        panel.set_xticks(places, [*ascii_uppercase[:options], "none"], fontsize=7)
        panel.set_ylim(0, 1)
        panel.yaxis.set_major_formatter(percent)
        panel.tick_params(axis="y", labelsize=7)
        name = spaced(category) or "all items"
        panel.set_title(fitted(name, 1.8, 8), fontsize=8)
        if is_at_left(panel):
            panel.set_ylabel("of items (%)", fontsize=7)
    entitle(figure, f"{title}: {row.model}")
    first = panels[0]
    marks = [
        first.bar([0], [0], color=look.colour, alpha=0.75),
        first.plot([], [], "_", ms=15, mew=2.0, color="#222222")[0],
    ]
    seat_legend(figure, marks, ["said", "right"])
    return figure
