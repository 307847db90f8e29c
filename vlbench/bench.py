"""Entry point: sets up a run, runs its plan and writes boards; `evaluate` for Python."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import torch

from vlbench.catalog.library_names import split_names
from vlbench.engine import NoProgress, Progress, devices
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store
from vlbench.results import Result
from vlbench.run.datasets import require_region_widths
from vlbench.run.execute import Machine, Report, group_jobs, run_model
from vlbench.run.options import Keywords, Options
from vlbench.run.plan import Plan, agree, plan
from vlbench.run.row import RowWriter
from vlbench.system import digests, hub
from vlbench.system.files import sweep, temporary_folder

LOGGER = logging.getLogger(__name__)


@contextmanager
def set_up(options: Options, *, reach_hub: bool = True) -> Iterator[tuple[Options, Processes]]:
    """Set this process up for a model; yield options with a cache folder, and the processes.

    The device computes exact float32 (`devices.set_up`). Environment variables are set according to
    whether the hub can be reached; a connection is tried if `reach_hub`. Digests of files are
    remembered in the cache folder; a temporary folder is used if none is given. At the end, these
    variables and the global random generators are restored.
    """
    with hub.restored(), _same_random_state(), temporary_folder() as temporary:
        hub.settle(offline=options.offline or not reach_hub)
        options = replace(options, cache_dir=options.cache_dir or temporary)
        assert options.cache_dir
        device = options.settings().device
        devices.set_up(device)
        with digests.remembered_in(options.cache_dir / "digests.sqlite"):
            yield options, Processes(cpu=device.type == "cpu")


@contextmanager
def _same_random_state() -> Iterator[None]:
    """Restore the global generators of Python, NumPy and torch's CPU when this context ends."""
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - libraries draw from it
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002 - as above


def evaluate(
    model: Any,
    tasks: str | Sequence[str],
    *,
    progress: Progress | None = None,
    **options: Unpack[Keywords],
) -> list[Result]:
    """Return a result for every task that `tasks` selects and whose data are available.

    `model` is a name, FILE:Class, or an adapter object; several models are a list, or names
    separated by commas; the same holds for tasks. The keywords are those of `Options`. Boards are
    written only if `output` is given. If `cache_dir` is not given, nothing is kept: every call
    computes features, and draws the images of `scenes`, again. Unlike the command line on several
    GPUs, no processes are started; processes of a launcher share the work.

    Raises VlbenchError if the command line would exit with 2. A task with a broken file is left out
    with a warning, unless it is named. A model that does not load gives failed results, which are
    not written to boards.
    """
    several = split_names(model) if isinstance(model, str) else model
    models = several if isinstance(several, list | tuple) else [several]
    distinct = {entry if isinstance(entry, str) else id(entry): entry for entry in models}
    words = tasks.split(",") if isinstance(tasks, str) else list(tasks)
    with planned_run([*distinct.values()], words, Options.of(**options)) as (planned, processes):
        for problem in planned.broken:
            LOGGER.warning("left out: %s", problem)
        return run(planned, processes, progress).results


@contextmanager
def planned_run(
    models: Sequence[Any], tasks: Sequence[str], options: Options
) -> Iterator[tuple[Plan, Processes]]:
    """Set this process up, and yield the plan that all processes agree on, ready for `run`."""
    with set_up(options) as (complete, processes):
        yield agree(plan(models, tasks, complete), processes), processes


def run(planned: Plan, processes: Processes, progress: Progress | None = None) -> Report:
    """Run a plan, and write each board as soon as its task is done.

    All processes share the work of each model. Raises OutputError if a board cannot be written,
    IdentityClash if a row of the same name has other weights, and SpecError if regions have another
    width than a model reads.
    """
    options, settings = planned.options, planned.options.settings()
    assert options.cache_dir
    writer = RowWriter(options, writes=processes.is_main)
    for job in planned.jobs:
        if job.data:
            require_region_widths(job.task, job.model, job.data, job.views)
    store = Store(options.cache_dir / "features")
    if processes.is_main:
        for folder in filter(None, (store.root, options.output)):
            sweep(folder)
    machine = Machine(settings, store, progress or NoProgress(), processes)
    report = Report()
    for jobs in group_jobs(planned.jobs, by=lambda job: job.model.name):
        for result in run_model(jobs, machine, writer, report):
            report.results.append(result)
            machine.progress.done(result)
    return report
