"""Figures of boards and of groups, made from boards alone.

One rule draws the figures of arXiv:2104.08313 (few-shot, clustering and transfer by data set and on
average, robustness by epsilon) and those of every other board: a panel for each condition that is a
word, an axis for the one that is a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlbench.boards import read_board
from vlbench.leaderboard.charts import Panel, Point, chart, erase, save, styled
from vlbench.leaderboard.summaries import publishable
from vlbench.leaderboard.tables import condition

Row = Mapping[str, Any]


def draw_figures(
    output: Path, groups: Mapping[str, Sequence[str]], training_images: Mapping[str, float]
) -> list[Path]:
    """Write `figures/<board>` as SVG and PNG, of every board and of every group's summary.

    Of a group, a panel a task and one of the mean, and its mean against `training_images` (by
    model), where three models or more say how many they saw. Rows that are partial or of random
    weights are left out, as from summaries; a figure that no row is left for is removed.
    """
    with styled():
        boards = [file for file in sorted(output.glob("*.json")) for file in _draw_board(file)]
        means = [
            drawn
            for group, tasks in sorted(groups.items())
            for drawn in _draw_group(output, group, tasks, training_images)
        ]
    return [*boards, *means]


def _draw_board(file: Path) -> list[Path]:
    panels = board_panels(read_board(file) or {})
    return _drawn(file.stem, panels, file.parent / "figures")


def _drawn(title: str, panels: Sequence[Panel], folder: Path) -> list[Path]:
    """Write a figure under its title; of no panels, remove the one that stands there."""
    if panels:
        return save(chart(title, panels), folder / title)
    erase(folder / title)
    return []


def _draw_group(
    output: Path, group: str, tasks: Sequence[str], training_images: Mapping[str, float]
) -> list[Path]:
    """Draw the mean of a group beside its tasks; a group that is compared has its own figures."""
    mean = read_board(output / "summaries" / f"{group}.json")
    boards = [read_board(output / f"{task}.json") or {} for task in tasks]
    panels: list[Panel] = []
    sizes: list[Panel] = []
    if mean and all(mean["primary"] == board.get("primary") for board in boards):
        panels = [p for b, task in zip(boards, tasks, strict=True) for p in board_panels(b, task)]
        means = {row["model"]: row for row in mean["rows"]}
        panels += _panels(means, mean["primary"]["metric"], "mean and its standard error")
        sizes = size_panels(mean, training_images)
    written = _drawn(group, panels, output / "figures")
    return [*written, *_drawn(f"{group}_by_training_images", sizes, output / "figures")]


def board_panels(board: Row, name: str = "") -> list[Panel]:
    """Return the panels of a board's primary metric; none where no row may be published."""
    return _panels(publishable(board["rows"]), board["primary"]["metric"], name) if board else []


def _panels(rows: Mapping[str, Row], metric: str, name: str) -> list[Panel]:
    """Return the panels of the scores of one metric, of rows by model."""
    scores = {m: [s for s in row["scores"] if s["metric"] == metric] for m, row in rows.items()}
    everything = [score for found in scores.values() for score in found]
    axis = _axis(everything)
    conditions = {_words(score, axis): None for score in everything}
    return [
        Panel(
            title=", ".join(filter(None, (name, words))),
            x=axis,
            y=_spaced(metric),
            models={
                model: [_point(s, axis) for s in found if _words(s, axis) == words]
                for model, found in scores.items()
                if any(_words(s, axis) == words for s in found)
            },
            chance=_chance([s for s in everything if _words(s, axis) == words], axis),
        )
        for words in conditions
    ]


def size_panels(summary: Row, training_images: Mapping[str, float]) -> list[Panel]:
    """Return the primary score of models against the images that they were trained on."""
    wanted = summary["primary"]
    points = {
        row["model"]: [_point(score, "")._replace(x=training_images[row["model"]])]
        for row in summary["rows"]
        for score in row["scores"]
        if {"metric": score["metric"], "at": score["at"]} == wanted
        and training_images.get(row["model"])
    }
    title = ", ".join(f"{_spaced(k)} {condition(v)}" for k, v in wanted["at"].items())
    enough = len(points) >= 3
    y = _spaced(wanted["metric"])
    return [Panel(title=title, x="training images", y=y, models=points)] if enough else []


def _axis(scores: Sequence[Row]) -> str:
    """Return the condition that is a number and varies; empty where there is none."""
    values: dict[str, set[Any]] = {}
    for score in scores:
        for key, value in score["at"].items():
            values.setdefault(key, set()).add(value)
    numbers = [
        key
        for key, found in values.items()
        if len(found) > 1 and not any(isinstance(value, str) for value in found)
    ]
    return max(numbers, key=lambda key: len(values[key]), default="")


def _words(score: Row, axis: str) -> str:
    """Return the conditions of a score, less the one on the axis."""
    return ", ".join(f"{_spaced(k)} {condition(v)}" for k, v in score["at"].items() if k != axis)


def _point(score: Row, axis: str) -> Point:
    """Return a score with its interval: of a mean over tasks, plus and minus its standard error."""
    low, high = score["ci95"] or (None, None)
    if score["ci95"] is None and score["stderr"] is not None:
        low, high = score["value"] - score["stderr"], score["value"] + score["stderr"]
    interval = None if low is None or high is None else (low, high)
    return Point(float(score["at"].get(axis, 0)), score["value"], interval)


def _chance(scores: Iterable[Row], axis: str) -> list[tuple[float, float]]:
    found = {score["at"].get(axis, 0): score["chance"] for score in scores}
    return [(float(x), y) for x, y in found.items() if y is not None]


def _spaced(name: str) -> str:
    return name.replace("_", " ")
