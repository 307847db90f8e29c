"""Figures of scores, one for each board and each group, made from boards and summaries alone.

The same rule draws the figures of arXiv:2104.08313 (few-shot, clustering and transfer per data set
and on average, robustness by epsilon) and those of all other boards. A condition with a text as its
value gets a panel per value; the condition that is a number is the x-axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vlbench.boards import Board, read_board
from vlbench.leaderboard.charts import Panel, Point, chart, erase, save, styled
from vlbench.leaderboard.rows import publishable
from vlbench.leaderboard.tables import condition, spaced
from vlbench.results import Result, Score, matching


def draw_figures(
    output: Path, groups: Mapping[str, Sequence[str]], training_images: Mapping[str, float]
) -> list[Path]:
    """Write `figures/<board>` as SVG and PNG for each board and each group's summary.

    A group's figure has a panel for each task and one for the mean. A second figure shows the mean
    against the number of `training_images`, given by model, where at least three models state it.
    Only publishable rows are drawn; a figure without rows is removed.
    """
    with styled():
        boards = [file for file in sorted(output.glob("*.json")) for file in _draw_board(file)]
        means = [
            drawn
            for group, tasks in sorted(groups.items())
            for drawn in _draw_group(output, group, tasks, training_images)
        ]
    return [*boards, *means]


def board_panels(board: Board, name: str = "") -> list[Panel]:
    """Return the panels of a board's primary metric; none where no row is publishable."""
    return _panels(publishable(board.results), board.primary["metric"], name)


def size_panels(summary: Board, training_images: Mapping[str, float]) -> list[Panel]:
    """Return the panel of primary scores against training images; none for under three models."""
    primary = summary.primary
    points = {
        row.model: [_point(score, "")._replace(x=training_images[row.model])]
        for row in summary.results
        for score in matching(row.scores, primary)
        if training_images.get(row.model)
    }
    title = ", ".join(f"{spaced(k)} {condition(v)}" for k, v in primary["at"].items())
    y = spaced(primary["metric"])
    enough = len(points) >= 3
    return [Panel(title=title, x="training images", y=y, models=points)] if enough else []


def _draw_board(file: Path) -> list[Path]:
    board = read_board(file)
    return _draw(file.stem, board_panels(board) if board else [], file.parent / "figures")


def _draw_group(
    output: Path, group: str, tasks: Sequence[str], training_images: Mapping[str, float]
) -> list[Path]:
    """Draw a group of means; one whose models are compared instead has figures of its own."""
    mean = read_board(output / "summaries" / f"{group}.json")
    boards = [read_board(output / f"{task}.json") for task in tasks]
    panels: list[Panel] = []
    sizes: list[Panel] = []
    if mean and all(board and board.primary == mean.primary for board in boards):
        pairs = zip(boards, tasks, strict=True)
        panels = [p for board, task in pairs if board for p in board_panels(board, task)]
        means = {row.model: row for row in mean.results}
        panels += _panels(means, mean.primary["metric"], "mean and its standard error")
        sizes = size_panels(mean, training_images)
    written = _draw(group, panels, output / "figures")
    return [*written, *_draw(f"{group}_by_training_images", sizes, output / "figures")]


def _draw(title: str, panels: Sequence[Panel], folder: Path) -> list[Path]:
    """Write a figure under its title; without panels, remove the one that is there."""
    if panels:
        return save(chart(title, panels), folder / title)
    erase(folder / title)
    return []


def _panels(rows: Mapping[str, Result], metric: str, name: str) -> list[Panel]:
    """Return the panels of the scores of one metric; `rows` are given by model."""
    scores = {model: [s for s in row.scores if s.metric == metric] for model, row in rows.items()}
    everything = [score for found in scores.values() for score in found]
    axis = _axis(everything)
    panels = []
    for words in dict.fromkeys(_words(score, axis) for score in everything):
        here = {m: [s for s in found if _words(s, axis) == words] for m, found in scores.items()}
        panels.append(
            Panel(
                title=", ".join(filter(None, (name, words))),
                x=axis,
                y=spaced(metric),
                models={m: [_point(s, axis) for s in found] for m, found in here.items() if found},
                chance=_chance([s for found in here.values() for s in found], axis),
            )
        )
    return panels


def _axis(scores: Sequence[Score]) -> str:
    """Return the number among the conditions that takes most values; empty where none varies."""
    values: dict[str, set[str | int | float]] = {}
    for score in scores:
        for key, value in score.at.items():
            values.setdefault(key, set()).add(value)
    numbers = [
        key
        for key, found in values.items()
        if len(found) > 1 and not any(isinstance(value, str) for value in found)
    ]
    return max(numbers, key=lambda key: len(values[key]), default="")


def _words(score: Score, axis: str) -> str:
    """Return the conditions of a score without the one on the axis."""
    return ", ".join(f"{spaced(k)} {condition(v)}" for k, v in score.at.items() if k != axis)


def _point(score: Score, axis: str) -> Point:
    """Return a score with its interval, or with its standard error where it has no interval."""
    interval = score.ci95
    if interval is None and score.stderr is not None:
        interval = score.value - score.stderr, score.value + score.stderr
    return Point(_x(score, axis), score.value, interval)


def _chance(scores: Sequence[Score], axis: str) -> list[tuple[float, float]]:
    found = {_x(score, axis): score.chance for score in scores}
    return [(x, y) for x, y in found.items() if y is not None]


def _x(score: Score, axis: str) -> float:
    return float(score.at.get(axis, 0))
