"""History: what loading models and running jobs took on this machine, kept in the cache folder."""

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
from vlbench.planning.jobs import Job

LOGGER = logging.getLogger(__name__)

# The work of a model that gets ready, whatever the task.
LOADING = "loading"

COLUMNS = "place TEXT, work TEXT, model TEXT, seconds REAL, memory_mb REAL, stored_mb REAL"
SEEN = "work, model, min(seconds), max(seconds), max(memory_mb), max(stored_mb)"


class Took(NamedTuple):
    """What a step took: seconds, the process's peak of memory, and growth of the feature store."""

    seconds: float
    memory_mb: float
    stored_mb: float


class Seen(NamedTuple):
    """What a step took in earlier runs: the least and the most."""

    least_seconds: float
    most_seconds: float
    most_memory_mb: float
    most_stored_mb: float


class History:
    """Remembers what steps took in one place: this hardware, used alike.

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

    def seen(self) -> Mapping[str, Mapping[str, Seen]]:
        """Return what each model took for each work, by work and model."""
        found: dict[str, dict[str, Seen]] = {}
        if not self._file.is_file():
            return found
        query = f"SELECT {SEEN} FROM steps WHERE place = ? GROUP BY work, model"  # noqa: S608 - ours
        try:
            with closing(_open(self._file)) as base:
                for work, model, *numbers in base.execute(query, (self._place,)):
                    found.setdefault(work, {})[model] = Seen(*numbers)
        except sqlite3.Error as error:
            LOGGER.warning(
                "%s tells of no earlier run (%s); if it is damaged, delete it", self._file, error
            )
        return found


def place_of(settings: ComputeSettings, processes: int) -> str:
    """Return what the time of the same work depends on: the hardware, and how it is used."""
    device, threads = settings.device, torch.get_num_threads()
    used = [device.type, str(settings.dtype), settings.batch_size, processes]
    return json.dumps([hardware(device), threads, *used])


def work_of(job: Job) -> str:
    """Return the digest of what a job does to any model: its task and the rows it reads."""
    assert job.data
    return digest([job.task.fixed, job.data.digest()])


def _open(file: Path) -> sqlite3.Connection:
    # An estimate is worth no longer wait, as on a shared disk that cannot lock.
    base = sqlite3.connect(file, timeout=2)
    base.execute(f"CREATE TABLE IF NOT EXISTS steps ({COLUMNS})")
    return base


class Step(NamedTuple):
    """One step of a run: a model loaded or a job done, and what that took in earlier runs.

    `seen` is None where there was none. `others` counts the other models that it was seen of; 0: it
    was seen of this one.
    """

    model: str
    what: str
    seen: Seen | None
    others: int = 0


def estimated(jobs: Sequence[Job], known: Mapping[str, Mapping[str, Seen]]) -> list[Step]:
    """Return the steps of the jobs that are to run, in order, as far as earlier runs tell.

    `known` is what was seen, by work and model. A task that this model has not done is estimated
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


def total(steps: Sequence[Step]) -> Seen | None:
    """Return what steps take one after the other; None where nothing is known of any."""
    seen = [step.seen for step in steps if step.seen]
    if not seen:
        return None
    least, most, memory, stored = zip(*seen, strict=True)
    return Seen(sum(least), sum(most), max(memory), sum(stored))


def _step(job: Job, models: Mapping[str, Seen]) -> Step:
    name, task = job.model.name, job.task.spec.name
    if name in models or not models:
        return Step(name, task, models.get(name))
    least, most, memory, stored = zip(*models.values(), strict=True)
    seen = Seen(min(least), max(most), max(memory), max(stored))
    return Step(name, task, seen, others=len(models))
