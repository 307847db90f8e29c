"""Figures of matching scores, as figures 2 and 3 of arXiv:2210.09550, from boards alone.

Of captions whose nouns or other words are replaced, each model has a panel of bars; of templates
with k nouns, a panel of lines along k: solid for nouns that the references name, dashed where the
added nouns are absent from them. Scores have each model's own scale, so that no panels share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vlbench.boards import Board
from vlbench.leaderboard.figures.charts import erase, save, styled
from vlbench.leaderboard.figures.layouts import entitle, fitted, grid, is_at_left, seat_legend
from vlbench.leaderboard.figures.looks import COLOURS, MARKS
from vlbench.leaderboard.rows import publishable
from vlbench.leaderboard.tables import spaced
from vlbench.results import Result, Score

METRIC = "match_score"

# What is replaced in a caption, and what its bar is called.
BARS = {"none": "caption", "others": "other words\nreplaced", "nouns": "nouns\nreplaced"}

# How the lines of both kinds of nouns are drawn.
LINES: Any = {"true": "-", "absent": "--"}
KINDS = {"true": "nouns of the references", "absent": "added nouns of none"}

BAR: Any = {"width": 0.65, "edgecolor": "#333333", "linewidth": 0.6, "capsize": 3}


def draw_match_scores(output: Path, boards: Mapping[str, Board]) -> list[Path]:
    """Write `figures/<task>_match_scores` for each board with such scores; return the files.

    Only publishable rows are drawn; a figure without rows is removed.
    """
    written = []
    with styled():
        for name, board in boards.items():
            place = output / "figures" / f"{name}_match_scores"
            figure = match_figure(board)
            if figure is None:
                erase(place)
            else:
                written += save(figure, place)
    return written


def match_figure(board: Board) -> Figure | None:
    """Return the figure of a board; None where no publishable row has the scores."""
    rows = publishable(board.results)
    draw = next((draw for draw, fits in DRAWN.items() if any(map(fits, rows.values()))), None)
    if draw is None:
        return None
    there = {name: row for name, row in sorted(rows.items()) if DRAWN[draw](row)}
    figure, panels = grid(len(there), (3.0, 2.6))
    for axes, (name, row) in zip(panels, there.items(), strict=True):
        draw(axes, [score for score in row.scores if score.metric == METRIC])
        axes.set_title(fitted(name, 2.4, 9), fontsize=9)
        axes.tick_params(labelsize=8)
        if is_at_left(axes):
            axes.set_ylabel("mean matching score", fontsize=8)
    entitle(figure, f"{spaced(board.task)}: matching scores")
    if draw is _draw_lines:
        _seat_legend(figure, list(there.values()))
    return figure


def _draw_bars(axes: Axes, scores: Sequence[Score]) -> None:
    """Draw the scores of a caption and of its twins, with intervals."""
    found = {str(score.at["replaced"]): score for score in scores if "replaced" in score.at}
    names = [name for name in BARS if name in found]
    for place, name in enumerate(names):
        score = found[name]
        axes.bar([place], [score.value], color=COLOURS[place], yerr=_reach(score), **BAR)
    axes.set_xticks(range(len(names)), [BARS[name] for name in names])


def _draw_lines(axes: Axes, scores: Sequence[Score]) -> None:
    """Draw the scores of each template along the number of nouns, with intervals."""
    along: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        if "k" in score.at:
            key = str(score.at["template"]), str(score.at["nouns"])
            along.setdefault(key, []).append(score)
    names = list(dict.fromkeys(template for template, _ in along))
    for (template, kind), found in along.items():
        ordered = sorted(found, key=lambda score: float(score.at["k"]))
        reach = [_reach(score) for score in ordered]
        axes.errorbar(
            [float(score.at["k"]) for score in ordered],
            [score.value for score in ordered],
            yerr=[[one[side][0] for one in reach] for side in (0, 1)],
            **_line(names.index(template), LINES.get(kind, ":")),
            capsize=2,
        )
    ks = sorted({float(score.at["k"]) for found in along.values() for score in found})
    axes.set_xticks(ks, [f"{k:g}" for k in ks])
    axes.set_xlabel("nouns", fontsize=8)


def _seat_legend(figure: Figure, rows: Sequence[Result]) -> None:
    """Name the templates and both kinds of nouns."""
    found = [score.at["template"] for row in rows for score in row.scores if "k" in score.at]
    names = list(dict.fromkeys(map(str, found)))
    handles = [Line2D([], [], **_line(i, "-")) for i in range(len(names))]
    handles += [Line2D([], [], color="#333333", linestyle=line) for line in LINES.values()]
    labels = [*(f"template of {name}" for name in names), *(KINDS[kind] for kind in LINES)]
    seat_legend(figure, handles, labels)


def _line(number: int, style: str) -> dict[str, Any]:
    colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
    return {"color": colour, "marker": mark, "markersize": 4, "lw": 1.2, "linestyle": style}


def _reach(score: Score) -> list[list[float]]:
    """Return how far the interval reaches below and above a score, [2, 1]."""
    low, high = score.ci95 or (score.value, score.value)
    return [[max(score.value - low, 0.0)], [max(high - score.value, 0.0)]]


def _has(key: str) -> Any:
    """Return a function that tells whether a row has matching scores under a condition."""

    def fits(row: Result) -> bool:
        return any(score.metric == METRIC and key in score.at for score in row.scores)

    return fits


# What is drawn of the rows that have such scores.
DRAWN: Mapping[Any, Any] = {_draw_bars: _has("replaced"), _draw_lines: _has("k")}
