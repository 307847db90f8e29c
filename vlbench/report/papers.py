"""The published numbers of a paper: which rows repeat them, and what these rows cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.data_sets import data_sets
from vlbench.catalog.findings import FindingsSpec
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.errors import counted
from vlbench.report.reproduction import source_of

# Bytes of a number of float32, and the speeds that estimates assume, in FLOP/s: two cores of a
# server, and a GPU at a tenth of its peak.
NUMBER, CPU, GPU = 4, 1e11, 1e13

# A gradient costs two forward passes beside the one that it follows.
WITH_GRADIENT = 3

# Probes that pass each image once, and compute little besides.
PASS_ONCE = ("few_shot", "clustering", "zero_shot", "classification")


# The columns of a table of rows.
HEADS = ("task", "model", "published", "data", "GB", "weights, GB", "CPU", "GPU")


class Row(NamedTuple):
    """A row to compute: its published values, and gigabytes and FLOPs, None where not known.

    `elsewhere` are those of its published values that other sources than the paper print.
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
    flops: float | None

    @property
    def values(self) -> str:
        """How many published values there are, those of other sources apart."""
        own = self.published - self.elsewhere
        return f"{own or '-'}" + (f", {self.elsewhere} elsewhere" if self.elsewhere else "")


def rows_of(paper: FindingsSpec, catalog: Catalog) -> list[Row]:
    """Return the rows of a paper's experiments, those that need the fewest bytes first.

    Raises UnknownNameError for a model that no source has.
    """
    rows = [
        _row(catalog.tasks[one.task], catalog.model(model), paper)
        for one in paper.experiments
        for model in one.models
    ]
    return sorted(rows, key=lambda row: (row.data_gigabytes or 0) + (row.weights_gigabytes or 0))


def total(rows: Sequence[Row]) -> str:
    """Return how many rows there are, the gigabytes to fetch, each once, and the time, if known."""
    data = {row.data: row.data_gigabytes or 0 for row in rows}
    weights = {row.model: row.weights_gigabytes or 0 for row in rows}
    gigabytes = sum(data.values()) + sum(weights.values())
    known = [row.flops for row in rows if row.flops is not None]
    cpu, gpu = (_time(sum(known) / speed) for speed in (CPU, GPU))
    times = f"; {len(known)} of them {cpu} on a CPU, {gpu} on a GPU" if known else ""
    return f"{counted(len(rows), 'row')}, {gigabytes:,.1f} GB{times}"


def costs(row: Row) -> list[str]:
    """Return the gigabytes of data and weights, and the time on a CPU and on a GPU."""
    sizes = [
        "-" if size is None else f"{size:.2f}"
        for size in (row.data_gigabytes, row.weights_gigabytes)
    ]
    times = ["-" if row.flops is None else _time(row.flops / speed) for speed in (CPU, GPU)]
    return [*sizes, *times]


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{max(seconds / 60, 1):.0f} min"


def _row(task: TaskSpec, model: ModelSpec, paper: FindingsSpec) -> Row:
    data = data_sets().get(str(task.data["loader"]))
    published = [value for value in task.reference if value["model"] == model.name]
    passes = _passes(task, data.images) if data else 0
    flops = model.cost["flops"] * passes if passes and model.cost else None
    return Row(
        task=task.name,
        model=model.name,
        published=len(published),
        elsewhere=sum(source_of(value, task, paper) != paper.paper for value in published),
        data=data.name if data else str(task.data["loader"]),
        access=data.access if data else "unknown",
        licence=data.licence if data else "unknown",
        data_gigabytes=data.gigabytes if data else None,
        weights_gigabytes=model.parameters * NUMBER / 1e9 if model.parameters else None,
        flops=flops,
    )


def _passes(task: TaskSpec, images: int) -> float:
    """Return how many forward passes of an image a task costs; 0 where it trains what nobody timed.

    An attack passes each image of its sample forward and back in each step, at each size, with two
    goals.
    """
    probe = task.probe.rpartition(":")[2]
    if probe == "robustness":
        sizes = sum(map(len, task.params["epsilons"].values()))
        steps = task.params["attack"]["steps"]
        return float(task.params["sample"]["images"] * sizes * 2 * steps * WITH_GRADIENT)
    return images if probe in PASS_ONCE else 0
