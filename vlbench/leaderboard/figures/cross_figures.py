"""The square of matching scores, table 2 of arXiv:2210.09550: models' favourites by scorers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from vlbench.boards import Board
from vlbench.leaderboard.figures.charts import erase, save, styled
from vlbench.leaderboard.figures.layouts import entitle, grid, text_width
from vlbench.leaderboard.rows import publishable
from vlbench.leaderboard.tables import drawn, spaced
from vlbench.results import Result, Score

Floats = NDArray[np.float64]

METRIC = "match_score"
FAVOURITES, BEFORE = "favourites", "ce"

# The row of the captions before any reward.
BEFORE_ROW = "captions before"

# The size of names, in points.
NAME = 8


def draw_squares(output: Path, boards: Mapping[str, Board]) -> list[Path]:
    """Write `figures/<task>_square` for each board of captions under several scorers.

    Only publishable rows that may be compared are drawn; a figure without rows is removed.
    """
    written = []
    for name, board in boards.items():
        rows = _compared(publishable(board.results).values())
        place = output / "figures" / f"{name}_square"
        if not rows:
            erase(place)
            continue
        with styled():
            written += save(square_figure(spaced(name), rows), place)
    return written


def square_figure(title: str, rows: Sequence[Result]) -> Figure:
    """Return mean scores of each row's favourites by scorer, and of the captions before.

    A column is shaded from its lowest to its highest score, as scorers have scales of their own. An
    arrow says that favourites are above or below the captions before, where their interval does.
    """
    tables = {row.model: _scores(row, FAVOURITES) for row in rows}
    scorers = list(dict.fromkeys(name for table in tables.values() for name in table))
    arrows = {row.model: _arrows(row) for row in rows}
    tables[BEFORE_ROW] = {k: v for row in reversed(rows) for k, v in _scores(row, BEFORE).items()}
    values = np.array(
        [[_value(table.get(scorer)) for scorer in scorers] for table in tables.values()]
    )
    longest = max(text_width(name, NAME) for name in (*tables, *scorers))
    size = 1.6 + 0.75 * len(scorers) + longest, 1.0 + 0.42 * len(tables) + longest
    figure, (axes,) = grid(1, size)
    axes.spines[:].set_visible(False)
    shades = _shades(values)
    axes.imshow(shades, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    units = {name: one.unit for table in tables.values() for name, one in table.items()}
    labels = [drawn(f"{name}\n({units[name]})") for name in scorers]
    axes.set_xticks(range(len(scorers)), labels, rotation=90)
    axes.set_yticks(range(len(tables)), [drawn(name) for name in tables])
    axes.tick_params(length=0, labelsize=NAME)
    for i, (model, table) in enumerate(tables.items()):
        for j, scorer in enumerate(scorers):
            if scorer in table:
                told = f"{table[scorer].value:.3g}{arrows.get(model, {}).get(scorer, '')}"
                colour = "white" if shades[i, j] > 0.6 else "black"
                axes.text(j, i, told, ha="center", va="center", color=colour, fontsize=NAME)
    axes.set_xlabel("scorer", fontsize=NAME)
    axes.set_ylabel("captions that this model likes", fontsize=NAME)
    entitle(figure, title)
    return figure


def _compared(rows: Iterable[Result]) -> list[Result]:
    """Return the rows with such scores that may be compared: the largest such set."""
    found = [row for row in rows if _scores(row, FAVOURITES)]
    often = Counter(row.comparable for row in found)
    return [row for row in found if row.comparable == max(often, key=often.__getitem__)]


def _scores(row: Result, kind: str) -> dict[str, Score]:
    """Return the score of a kind of captions by scorer."""
    return {
        str(score.at["scorer"]): score
        for score in row.scores
        if score.metric == METRIC and set(score.at) == {"scorer", "captions"}
        if score.at["captions"] == kind
    }


def _arrows(row: Result) -> dict[str, str]:
    """Return the arrow of each scorer whose gain has an interval without 0."""
    gains = [score for score in row.scores if score.metric == f"{METRIC}_gain" and score.ci95]
    named: Mapping[str, Score] = {str(s.at["scorer"]): s for s in gains if set(s.at) == {"scorer"}}
    up = {name: "↑" for name, score in named.items() if score.ci95 and score.ci95[0] > 0}
    return up | {name: "↓" for name, score in named.items() if score.ci95 and score.ci95[1] < 0}


def _value(score: Score | None) -> float:
    return np.nan if score is None else score.value


def _shades(values: Floats) -> Floats:
    """Return [K, L] values of each column between 0 for its lowest and 1 for its highest."""
    low, high = np.nanmin(values, 0), np.nanmax(values, 0)
    shades: Floats = (values - low) / np.where(high > low, high - low, 1.0)
    return shades
