"""Figures that tasks name in their YAML: functions of a board or of a row, called by `build`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL.Image import Image

from vlbench.boards.artifacts import read_table
from vlbench.boards.board import Board
from vlbench.catalog.specs import TaskSpec
from vlbench.drawing.looks import Look
from vlbench.drawing.sheets import png
from vlbench.errors import OutputError, described
from vlbench.report.data_sets import figure_names, published_by_data
from vlbench.report.figures.charts import erase, save, styled
from vlbench.report.table import title_of
from vlbench.schema import parameters
from vlbench.system.files import safe_name, write_whole

# The functions that draw the figures of each task, by task and name.
Figures = Mapping[str, Mapping[str, Callable[..., Any]]]


def draw_task_figures(
    output: Path,
    boards: Mapping[str, Board],
    figures: Figures,
    looks: Mapping[str, Look],
    specs: Mapping[str, TaskSpec],
) -> tuple[list[Path], int]:
    """Write the figures of each task that has a board; return the files, and how many calls failed.

    A function of a `board` gets only the publishable rows and draws `figures/<task>_<name>`. A
    function of a `row` is called for each ok row and draws `figures/<task>/<model>_<name>`.
    `<name>` is the name of the function, or each key if it returns several pictures; for the key
    "", `_<name>` is left out. If a board has several data sets, or a model several rows, `_<data>`
    follows the task or the model. If the function returns None, the figure is removed; if it
    raises, no figure is drawn, and the reason is logged.
    """
    written: list[list[Path] | None] = []
    for task in sorted(set(figures) & set(boards)):
        shared = {"title": title_of(task, specs.get(task), boards[task]), "looks": looks}
        for name, function in figures[task].items():
            calls = _calls(output, boards[task], function, shared)
            written += [_write(draw, place, name) for draw, place in calls]
    return [*chain.from_iterable(filter(None, written))], written.count(None)


def _calls(
    output: Path,
    board: Board,
    function: Callable[..., Any],
    shared: Mapping[str, Any],
) -> Iterator[tuple[Callable[[], Any], Path]]:
    """Yield each call of a function, and the place of its figures; `shared` is passed to all."""
    keys = parameters(function)
    place = output / "figures" / board.task
    always = {"read_table": partial(read_table, output), **shared}
    if "board" in keys:
        by_name = published_by_data(board.results) or {"": {}}
        calls = [
            (
                always
                | {"board": replace(board, results=list(rows.values()))}
                | ({"title": f"{shared['title']}: {data}"} if len(by_name) > 1 else {}),
                place.with_name(f"{board.task}_{safe_name(data)}") if len(by_name) > 1 else place,
            )
            for data, rows in by_name.items()
        ]
    else:
        calls = [
            (always | {"row": row, "look": shared["looks"][row.model]}, place / name)
            for name, row in figure_names(board.results).items()
        ]
    for values, where in calls:
        yield partial(function, **{key: values[key] for key in values if key in keys}), where


def _write(draw: Callable[[], Any], place: Path, name: str) -> list[Path] | None:
    """Write what a function draws: one picture under its name, or several under their keys.

    Returns None if the function raised.
    """
    try:
        with styled():
            drawn = draw()
            pictures = drawn if isinstance(drawn, Mapping) else {name: drawn}
            places = {key: f"{place.name}_{key}" if key else place.name for key in pictures}
            files = [_save(pictures[key], place.with_name(places[key])) for key in pictures]
    except OutputError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody's function, or somebody's board
        logging.getLogger(__name__).warning("%s: no %s: %s", place, name, described(error))
        return None
    return list(chain(*files))


def _save(picture: Figure | Image | None, file: Path) -> list[Path]:
    """Write a figure as SVG, PNG and PDF, or an image as PNG; None removes the existing files."""
    if picture is None:
        erase(file)
        return []
    if isinstance(picture, Figure):
        return save(picture, file)
    written = file.with_name(f"{file.name}.png")
    write_whole(written, png(picture))
    return [written]
