"""Figures of scores, one for each board and each group, made only from boards and summaries.

The same rule draws the figures of arXiv:2104.08313 (few-shot, clustering and transfer per data set
and on average, robustness by epsilon) and the figures of all other boards. A condition whose value
is a text gets a panel per value; a condition that is a number becomes the x-axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from vlbench.boards.board import Board, read_board
from vlbench.catalog.specs import TaskSpec
from vlbench.drawing.looks import Look
from vlbench.errors import spaced
from vlbench.report.data_sets import published_by_data, set_names
from vlbench.report.figures.charts import Panel, Point, chart, erase, save, styled
from vlbench.report.rows import comparable_sets, matrices_of
from vlbench.report.table import title_of
from vlbench.report.texts import condition, hardest_floor
from vlbench.results import Result, Score, matching


def draw_figures(
    output: Path,
    boards: Mapping[str, Board],
    groups: Mapping[str, Sequence[str]],
    training_images: Mapping[str, float],
    looks: Mapping[str, Look],
    specs: Mapping[str, TaskSpec] | None = None,
) -> list[Path]:
    """Write `figures/<board>` as SVG, PDF and PNG for each board and each group's summary.

    A group's figure has a panel for each task and one for the mean. A second figure shows the mean
    against the number of `training_images` (given by model) if it is known for at least three
    models. Only publishable rows are drawn; a figure without rows is removed.
    """
    titles = {
        name: title_of(name, (specs or {}).get(name), boards.get(name))
        for name in {*boards, *groups}
    }
    written = []
    with styled():
        for name, board in boards.items():
            written += _draw(output, name, titles[name], board_panels(board), looks)
        for group, tasks in sorted(groups.items()):
            of_tasks = {task: boards.get(task) for task in tasks}
            written += _draw_group(output, group, titles, of_tasks, training_images, looks)
    return written


def board_panels(board: Board, name: str = "") -> list[Panel]:
    """Return the panels of a board's primary metric for each set of comparable rows.

    The list is empty if no row is publishable. Controls, which ignore their inputs, are left out.
    """
    sets = published_by_data([row for row in board.results if not row.is_control])
    good = [row for group in sets.values() for row in group.values()]
    names, panels = set_names(good), []
    for key, rows in comparable_sets(good).items():
        words = filter(None, (name, names[key]))
        of_set = {row.model: row for row in rows}
        panels += _panels(of_set, board.primary["metric"], ", ".join(words))
    return panels


def size_panels(summary: Board, training_images: Mapping[str, float]) -> list[Panel]:
    """Return the panel of primary scores against training images; none for under three models."""
    rows = {
        row.model: replace(row, scores=matching(row.scores, summary.primary))
        for row in summary.results
        if training_images.get(row.model)
    }
    panels = []
    for panel in _panels(rows, summary.primary["metric"], ""):
        models = {
            model: [point._replace(x=training_images[model]) for point in points]
            for model, points in panel.models.items()
        }
        panels.append(replace(panel, x="training images", models=models))
    return [panel for panel in panels if len(panel.models) >= 3]


def _draw_group(
    output: Path,
    group: str,
    titles: Mapping[str, str],
    boards: Mapping[str, Board | None],
    training_images: Mapping[str, float],
    looks: Mapping[str, Look],
) -> list[Path]:
    """Draw a group of means; a group whose models are compared has other figures."""
    complete = all(boards.values()) and not any(b and matrices_of(b) for b in boards.values())
    # The summary of a group of matrices is large and has no means, so it is not read.
    mean = read_board(output / "summaries" / f"{group}.json") if complete else None
    panels: list[Panel] = []
    sizes: list[Panel] = []
    if mean and all(board and board.primary == mean.primary for board in boards.values()):
        pairs = [(titles[task], board) for task, board in boards.items() if board]
        panels = [panel for name, board in pairs for panel in board_panels(board, name)]
        means = {row.model: row for row in mean.results}
        panels += _panels(means, mean.primary["metric"], "mean and its standard error")
        sizes = size_panels(mean, training_images)
    title, by = titles[group], f"{group}_by_training_images"
    written = _draw(output, group, title, panels, looks)
    return [*written, *_draw(output, by, f"{title} by training images", sizes, looks)]


def _draw(
    output: Path, name: str, title: str, panels: Sequence[Panel], looks: Mapping[str, Look]
) -> list[Path]:
    """Write a figure under its name; remove an existing figure if there are no panels."""
    place = output / "figures" / name
    if not panels:
        erase(place)
        return []
    return save(chart(title, panels, looks), place)


def _panels(rows: Mapping[str, Result], metric: str, name: str) -> list[Panel]:
    """Return the panels of the scores of one metric; `rows` are given by model.

    Scores that differ in unit or direction have separate panels. If there is an x-axis, scores
    without a place on it are left out.
    """
    scores = {model: [s for s in row.scores if s.metric == metric] for model, row in rows.items()}
    axis = _axis([score for group in scores.values() for score in group])
    if axis:
        scores = {model: [s for s in group if axis in s.at] for model, group in scores.items()}
    everything = [score for group in scores.values() for score in group]
    panels = []
    for words, unit, higher in dict.fromkeys(_kind(score, axis) for score in everything):
        kind = (words, unit, higher)
        here = {m: [s for s in group if _kind(s, axis) == kind] for m, group in scores.items()}
        panels.append(
            Panel(
                title=", ".join(filter(None, (name, words))),
                x=spaced(axis),
                y=spaced(metric),
                models={m: [_point(s, axis) for s in group] for m, group in here.items() if group},
                unit=unit,
                higher_is_better=higher,
            )
        )
    return panels


def _axis(scores: Sequence[Score]) -> str:
    """Return the numeric condition with the most values; empty if none varies."""
    values: dict[str, set[str | int | float]] = {}
    for score in scores:
        for key, value in score.at.items():
            values.setdefault(key, set()).add(value)
    numbers = [
        key
        for key, texts in values.items()
        if len(texts) > 1 and not any(isinstance(value, str) for value in texts)
    ]
    return max(numbers, key=lambda key: len(values[key]), default="")


def _kind(score: Score, axis: str) -> tuple[str, str, bool]:
    """Return what the scores of a panel share: conditions except the axis, unit and direction."""
    words = ", ".join(f"{spaced(k)} {condition(v)}" for k, v in score.at.items() if k != axis)
    return words, score.unit, not score.lower_is_better


def _point(score: Score, axis: str) -> Point:
    """Return a score with its interval; if it has none, with its standard error."""
    interval = score.ci95
    if interval is None and score.stderr is not None:
        interval = score.value - score.stderr, score.value + score.stderr
    x = float(score.at.get(axis, 0))
    return Point(x, score.value, interval, score.chance, hardest_floor(score))
