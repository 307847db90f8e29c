"""The published numbers of a paper: the rows that repeat them, and the cost of these rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.boards.board import folder_boards
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.data_sets import data_sets
from vlbench.catalog.findings import FindingsSpec
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.errors import counted
from vlbench.report.reproduction import source_of

# Bytes of a float32 number.
NUMBER = 4

# The columns of a table of rows.
HEADS = ("task", "model", "published", "data", "GB", "weights, GB", "hours")


class PaperRow(NamedTuple):
    """A row to compute: its published values, gigabytes, and the hours of the board's row.

    Unknown values are None. `elsewhere` is the number of its published values from sources other
    than the paper.
    """

    task: str
    model: str
    published: int
    elsewhere: int
    data: str
    access: str
    licence: str
    data_gigabytes: float | None
    weights_gigabytes: float | None
    hours: float | None


def rows_of(paper: FindingsSpec, catalog: Catalog, output: Path | None = None) -> list[PaperRow]:
    """Return the rows of a paper's experiments, sorted by bytes, the smallest first.

    Hours are read from the boards in `output`. Raises UnknownNameError for a model that no source
    has.
    """
    boards = [] if output is None else folder_boards(output).values()
    hours = {
        (row.task, row.model): row.run["seconds"] / 3600
        for board in boards
        for row in board.results
        if row.status == "ok" and "seconds" in row.run
    }
    rows = [
        _row(catalog.tasks[one.task], catalog.model(model), paper, hours.get((one.task, model)))
        for one in paper.experiments
        for model in one.models
    ]
    return sorted(rows, key=lambda row: (row.data_gigabytes or 0) + (row.weights_gigabytes or 0))


def total(rows: Sequence[PaperRow]) -> str:
    """Return the number of rows, the gigabytes to download (each file once) and the known hours."""
    data = {row.data: row.data_gigabytes or 0 for row in rows}
    weights = {row.model: row.weights_gigabytes or 0 for row in rows}
    gigabytes = sum(data.values()) + sum(weights.values())
    hours = [row.hours for row in rows if row.hours is not None]
    measured = f"; {len(hours)} of them took {sum(hours):.1f} h" if hours else ""
    return f"{counted(len(rows), 'row')}, {gigabytes:,.1f} GB{measured}"


def cells(row: PaperRow) -> list[str]:
    """Return the cells of a row by `HEADS`; published values of other sources are counted apart."""
    number = row.published - row.elsewhere
    published = f"{number or '-'}" + (f", {row.elsewhere} elsewhere" if row.elsewhere else "")
    costs = (row.data_gigabytes, row.weights_gigabytes, row.hours)
    texts = ["-" if cost is None else f"{cost:.2f}" for cost in costs]
    return [row.task, row.model, published, row.data, *texts]


def _row(task: TaskSpec, model: ModelSpec, paper: FindingsSpec, hours: float | None) -> PaperRow:
    data = data_sets().get(str(task.data["loader"]))
    published = [value for value in task.reference if value["model"] == model.name]
    return PaperRow(
        task=task.name,
        model=model.name,
        published=len(published),
        elsewhere=sum(source_of(value, task, paper) != paper.paper for value in published),
        data=data.name if data else str(task.data["loader"]),
        access=data.access if data else "unknown",
        licence=data.licence if data else "unknown",
        data_gigabytes=data.gigabytes if data else None,
        weights_gigabytes=model.parameters * NUMBER / 1e9 if model.parameters else None,
        hours=hours,
    )
