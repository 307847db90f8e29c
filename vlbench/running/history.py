"""History: what loading models and running jobs took on this machine, kept in the cache folder."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import torch

from vlbench.digests import digest
from vlbench.engine.devices import hardware
from vlbench.engine.settings import ComputeSettings
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
