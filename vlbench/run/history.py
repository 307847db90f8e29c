"""History: the cost of loading models and running jobs here, kept in the cache folder."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import torch

from vlbench.digests import digest
from vlbench.engine.devices import ComputeSettings, hardware
from vlbench.run.job import Job

LOGGER = logging.getLogger(__name__)

# The work of a model that gets ready, whatever the task.
LOADING = "loading"

COLUMNS = "place TEXT, work TEXT, model TEXT, seconds REAL, memory_mb REAL, stored_mb REAL"
SUMMARY = "work, model, min(seconds), max(seconds), max(memory_mb), max(stored_mb)"


class Took(NamedTuple):
    """The cost of a step: seconds, the process's peak memory, and growth of the feature store."""

    seconds: float
    memory_mb: float
    stored_mb: float


class PastCost(NamedTuple):
    """The least and the most that a step took in earlier runs."""

    least_seconds: float
    most_seconds: float
    most_memory_mb: float
    most_stored_mb: float


class History:
    """Remembers the costs of steps in one place: this hardware, used with the same settings.

    A database that is broken or out of reach costs the estimates, not the run.
    """

    def __init__(self, folder: Path, place: str) -> None:
        self._file = folder / "history.sqlite"
        self._place = place

    def add(self, model: str, work: str, took: Took) -> None:
        """Remember what a model took for some work."""
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(sqlite3.Error), closing(_open(self._file)) as base, base:
            values = (self._place, work, model, *took)
            base.execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?)", values)

    def costs(self) -> Mapping[str, Mapping[str, PastCost]]:
        """Return what each model took for each work, by work and model."""
        costs: dict[str, dict[str, PastCost]] = {}
        if not self._file.is_file():
            return costs
        query = f"SELECT {SUMMARY} FROM steps WHERE place = ? GROUP BY work, model"  # noqa: S608 - ours
        try:
            with closing(_open(self._file)) as base:
                for work, model, *numbers in base.execute(query, (self._place,)):
                    costs.setdefault(work, {})[model] = PastCost(*numbers)
        except sqlite3.Error as error:
            LOGGER.warning(
                "%s tells of no earlier run (%s); if it is damaged, delete it", self._file, error
            )
        return costs


def place_of(settings: ComputeSettings, processes: int) -> str:
    """Return the hardware and the settings on which the cost of the same work depends."""
    device, threads = settings.device, torch.get_num_threads()
    used = [device.type, str(settings.dtype), settings.batch_size, processes]
    return json.dumps([hardware(device), threads, *used])


def work_of(job: Job) -> str:
    """Return the digest of a job apart from its model: its task and the rows it reads."""
    assert job.data
    return digest([job.task.fixed, job.data.digest()])


def _open(file: Path) -> sqlite3.Connection:
    # An estimate is worth no longer wait, as on a shared disk that cannot lock.
    base = sqlite3.connect(file, timeout=2)
    base.execute(f"CREATE TABLE IF NOT EXISTS steps ({COLUMNS})")
    return base


class Step(NamedTuple):
    """One step of a run: a model loaded or a job done, and what that took in earlier runs.

    `past` is None if there was no such run. `others` counts the other models that the estimate is
    from; 0: it is from this one.
    """

    model: str
    what: str
    past: PastCost | None
    others: int = 0


def estimate(jobs: Sequence[Job], known: Mapping[str, Mapping[str, PastCost]]) -> list[Step]:
    """Return the steps of the jobs that are to run, in order, as far as earlier runs tell.

    `known` is the past cost by work and model. A task that this model has not done is estimated
    from other models on the same rows; the loading of a model from nothing but itself.
    """
    steps: list[Step] = []
    loaded = set()
    for job in jobs:
        if job.status != "run":
            continue
        name = job.model.name
        if job.model.key not in loaded:
            loaded.add(job.model.key)
            steps.append(Step(name, LOADING, known.get(LOADING, {}).get(name)))
        steps.append(_step(job, known.get(work_of(job), {})))
    return steps


def total(steps: Sequence[Step]) -> PastCost | None:
    """Return the cost of steps one after the other; None if no cost is known."""
    past = [step.past for step in steps if step.past]
    if not past:
        return None
    least, most, memory, stored = zip(*past, strict=True)
    return PastCost(sum(least), sum(most), max(memory), sum(stored))


def _step(job: Job, models: Mapping[str, PastCost]) -> Step:
    name, task = job.model.name, job.task.spec.name
    if name in models or not models:
        return Step(name, task, models.get(name))
    least, most, memory, stored = zip(*models.values(), strict=True)
    past = PastCost(min(least), max(most), max(memory), max(stored))
    return Step(name, task, past, others=len(models))
