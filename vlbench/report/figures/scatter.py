"""Figure of two tasks: each model at its two primary scores, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import permutation_test, rankdata, zscore

from vlbench.boards.board import Board
from vlbench.drawing.layouts import DIAGONAL, entitle, fitted, grid, name_points, percent
from vlbench.drawing.looks import CHANCE, looks, style
from vlbench.errors import DataError, counted
from vlbench.report.data_sets import by_data, rows_of
from vlbench.report.rows import comparable_sets, publishable
from vlbench.report.texts import probability, score_name
from vlbench.results import Score

SIDE = 5.0  # inches

# With fewer models, no correlation is significant: with 4, |r| = 1 has p .083.
LEAST = 5

# The number of orders of the models that are tried: all for up to 8 models, otherwise a sample.
ORDERS = 40_320


class Correlation(NamedTuple):
    """Spearman's correlation over models, and its two-sided p by permutation of the models."""

    r: float
    p: float


class BoardPair(NamedTuple):
    """The titles of two boards, and the primary scores of the models that are on both."""

    titles: Sequence[str]
    scores: Mapping[str, tuple[Score, Score]]

    @property
    def correlation(self) -> Correlation | None:
        """Spearman's correlation over the models, signed so that higher is better.

        None for too few models, or if all have the same score on a task.
        """
        if len(self.scores) < LEAST:
            return None
        values = [
            [-score.value if score.lower_is_better else score.value for score in both]
            for both in self.scores.values()
        ]
        if any(len({*side}) == 1 for side in zip(*values, strict=True)):
            return None
        x, y = (zscore(rankdata(side)) for side in zip(*values, strict=True))
        tested = permutation_test(
            (x,),
            lambda side, axis: np.mean(side * y, axis),
            permutation_type="pairings",
            vectorized=True,
            n_resamples=ORDERS,
            random_state=0,
        )
        return Correlation(float(tested.statistic), float(tested.pvalue))

    @property
    def verdict(self) -> str:
        """The correlation in words, or why there is none."""
        if len(self.scores) < LEAST:
            return "too few for a correlation"
        if (result := self.correlation) is None:
            return "all have the same score on a task"
        return f"Spearman's correlation {result.r:.2f}, {probability(result.p)} by permutation"


def pair_of(boards: Sequence[Board], titles: Sequence[str], data: str = "") -> BoardPair:
    """Return the models that two boards share, without controls.

    If a board has several data sets, only the rows of the named `data` count; among rows of the
    same data that are not comparable, the largest set. Raises DataError if no model is on both
    boards, and UnknownNameError if a board has several data sets and none is named.
    """
    first, second = (_scores(board, data) for board in boards)
    shared = {name: (first[name], second[name]) for name in sorted(first.keys() & second.keys())}
    if not shared:
        raise DataError(f"no model has comparable scores of both {titles[0]} and {titles[1]}")
    return BoardPair(titles, shared)


def _scores(board: Board, data: str) -> dict[str, Score]:
    name = data if len(by_data(board.results)) > 1 else ""
    rows = publishable(
        [row for row in rows_of(board.results, board.task, name) if not row.is_control]
    )
    sets = comparable_sets([*rows.values()])
    largest = max(sets.values(), key=len, default=[])
    return {row.model: row.primary_score for row in largest if row.primary_score}


def scatter(pair: BoardPair) -> Figure:
    """Return the figure; dashed lines are chance."""
    figure, (axes,) = grid(1, (SIDE, SIDE))
    sides = [*zip(*pair.scores.values(), strict=True)]
    styles = looks(pair.scores)
    for name, (x, y) in pair.scores.items():
        bars: dict[str, Any] = {"xerr": _reach(x), "yerr": _reach(y)}
        axes.errorbar([x.value], [y.value], ls="", lw=0.8, capsize=2, **bars, **style(styles[name]))
    for side, line in ((sides[0], axes.axvline), (sides[1], axes.axhline)):
        for chance in {score.chance for score in side} - {None}:
            line(chance, **CHANCE)
    for title, side, is_x in zip(pair.titles, sides, (True, False), strict=True):
        _name_axis(axes, title, side[0], is_x=is_x)
    entitle(figure, f"{counted(len(pair.scores), 'model')}, {pair.verdict}")
    places = [(x.value, y.value) for x, y in pair.scores.values()]
    # Names go diagonally, since bars are horizontal and vertical.
    name_points(axes, places, [*pair.scores], DIAGONAL)
    return figure


def _reach(score: Score) -> list[list[float]] | None:
    """Return the lengths of an interval below and above its score, [2, 1]; None without one."""
    if score.ci95 is None:
        return None
    low, high = score.ci95
    return [[max(score.value - low, 0.0)], [max(high - score.value, 0.0)]]


def _name_axis(axes: Axes, title: str, score: Score, *, is_x: bool) -> None:
    unit = "%" if score.unit == "fraction" else score.unit
    lower = ", lower is better" if score.lower_is_better else ""
    text = f"{title}: {score_name(score.metric, score.at)} ({unit}){lower}"
    label = fitted(text, 0.8 * SIDE, 8)
    (axes.set_xlabel if is_x else axes.set_ylabel)(label, fontsize=8)
    axes.tick_params(labelsize=8)
    if score.unit == "fraction":
        (axes.xaxis if is_x else axes.yaxis).set_major_formatter(percent)
