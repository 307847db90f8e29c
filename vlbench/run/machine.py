"""Jobs: runs the probe of one job on its live model, and records the facts of the run."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import torch

from vlbench.engine import Engine, Progress
from vlbench.engine.devices import ComputeSettings, hardware, peak_memory_mb
from vlbench.engine.engine import Known
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store
from vlbench.results import Outcome, Result, require_primary
from vlbench.run.history import History, Took
from vlbench.run.job import Job
from vlbench.run.live_models import LiveModels


@dataclass(frozen=True, kw_only=True)
class Report:
    """Results, kept ones too; why tasks have no data, and why models did not load."""

    results: list[Result] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    not_loaded: dict[str, str] = field(default_factory=dict)


class Moment(NamedTuple):
    """A moment of a run, in seconds, and the bytes that the store has grown by until then."""

    seconds: float
    stored: int


class Machine(NamedTuple):
    """What all jobs of a run share."""

    settings: ComputeSettings
    store: Store
    progress: Progress
    processes: Processes
    history: History

    def now(self) -> Moment:
        """Return this moment."""
        return Moment(time.perf_counter(), self.store.grown)

    def remember(self, model: str, work: str, start: Moment) -> None:
        """Remember what a step took since its start. Every process calls this: each stores some."""
        end = self.now()
        stored = sum(self.processes.exchange(end.stored - start.stored))
        if self.processes.is_main:
            memory = peak_memory_mb(self.settings.device)
            took = Took(end.seconds - start.seconds, memory, stored / 2**20)
            self.history.add(model, work, took)


def run_job(job: Job, models: LiveModels, machine: Machine) -> tuple[Outcome, dict[str, Any]]:
    """Return what the job's probe finds, and the facts of this run.

    Raises SpecError where the task's primary score is not exactly one of those that the probe
    gave, and whatever the probe and the adapter raise.
    """
    assert job.data
    task, live = job.task, models.companions(job.task)
    settings = models.settings(job.model, job.data)
    engine = Engine(
        settings,
        store=machine.store,
        identities=models.identities(),
        progress=machine.progress,
        processes=machine.processes,
        known={
            id(models.get(one).adapter): Known(one.name, job.views.get(one.key))
            for one in (*chain.from_iterable(task.companions.values()), job.model)
        },
    )
    companions = {
        key: task.as_annotated(key, [one.adapter for one in several])
        for key, several in live.items()
    }
    start = time.perf_counter()
    adapter = models.get(job.model).adapter
    outcome: Outcome = task.probe(adapter, job.data, engine, **task.arguments, **companions)
    seconds = time.perf_counter() - start
    where = task.spec.document.where("primary").rpartition("/")[2]
    require_primary(outcome, task.spec.primary_score, where)
    facts = _facts(settings, machine.processes.size, seconds)
    return outcome, facts | {"trained": engine.trained}


def _facts(settings: ComputeSettings, processes: int, seconds: float) -> dict[str, Any]:
    """Return the facts that may differ between runs."""
    return {
        "finished": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "device": str(settings.device),
        "hardware": hardware(settings.device),
        "threads": torch.get_num_threads(),
        "processes": processes,
        "peak_memory_mb": round(peak_memory_mb(settings.device)),
        "batch_size": settings.batch_size,
        "channels_last": settings.channels_last,
    }
