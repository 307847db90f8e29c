"""The jobs of one model: loads it, runs its jobs one after the other, and frees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vlbench.engine.processes import Ended, EndedElsewhere, Processes, verdict
from vlbench.errors import IdentityClash, OutputError, ProcessLost, exits_as_errors, message_of
from vlbench.files import PART
from vlbench.plain import parameters
from vlbench.results import Result
from vlbench.run import row as rows
from vlbench.run.history import LOADING, work_of
from vlbench.run.job import Job
from vlbench.run.live_models import LiveModels
from vlbench.run.machine import Machine, Report, run_job
from vlbench.run.memory import memory_options
from vlbench.run.model import Model
from vlbench.run.row import RowWriter

# How PyTorch says that a CPU has too little memory.
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")

# How old a part is before no run can be writing it any more, in seconds.
DAY = 86_400.0

# A store may hold a million files, so that a folder is swept once a day.
MARK = ".swept"


def sweep(folder: Path) -> None:
    """Remove half-written files of killed runs, more than a day old, below a folder."""
    if not folder.is_dir() or _age(folder / MARK) < DAY:
        return
    with suppress(OSError):  # somebody else's folder may be read but not written
        (folder / MARK).touch()
        for part in folder.rglob(f"{PART}*"):
            if _age(part) > DAY:
                part.unlink(missing_ok=True)


def _age(file: Path) -> float:
    """Return the age of a file in seconds; infinite if it does not exist."""
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return float("inf")


def group_jobs(jobs: Iterable[Job], by: Callable[[Job], str]) -> list[list[Job]]:
    """Return jobs in groups of the same key, in the order in which the keys first come."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(by(job), []).append(job)
    return list(groups.values())


def run_model(
    jobs: Sequence[Job], machine: Machine, writer: RowWriter, report: Report
) -> Iterator[Result]:
    """Yield the results of one model's jobs; kept results go to the report straight away.

    The model is loaded once for each set of arguments that tasks ask for, freed before the next. Of
    a model that never loaded no row is written, not even what the plan skips.
    """
    report.results.extend(job.result for job in jobs if job.result)
    for job in jobs:
        if job.status == "no weights":
            report.not_loaded.update(job.missing)
            why = "; ".join(f"{name}: {reason}" for name, reason in job.missing.items())
            report.results.append(rows.without_scores(job, "failed", why))
    for same in group_jobs((j for j in jobs if j.status == "run"), by=lambda job: job.model.key):
        models = LiveModels(machine.settings, machine.processes)
        try:
            yield from _run_loaded(same, models, machine, writer, report)
        finally:
            models.free()
    tried = any(job.status in {"run", "kept"} for job in jobs)
    has_loaded = tried and jobs[0].model.name not in report.not_loaded
    for job in jobs:
        if job.status in {"skipped", "failed"}:
            row = rows.without_scores(job, job.status, job.reason)
            yield writer.write(row) if has_loaded else row


def _run_loaded(
    jobs: Sequence[Job], models: LiveModels, machine: Machine, writer: RowWriter, report: Report
) -> Iterator[Result]:
    """Load a model and yield the results of its jobs, which fail if it does not load."""
    model = jobs[0].model
    machine.progress.begin(model.name, jobs[0].task.spec.name)
    start = machine.now()
    load = partial(models.get, replace(model, wrapper=None))
    loaded = run_in_all(load, machine.processes, _remedy(model, machine))
    if loaded.status == "skipped":
        yield from (writer.write(rows.without_scores(job, *loaded)) for job in jobs)
    elif loaded.status != "ok":
        failed = [rows.without_scores(job, "failed", loaded.value) for job in jobs]
        report.not_loaded[model.name] = failed[0].reason
        report.results.extend(failed)
    else:
        machine.remember(model.name, LOADING, start)
        for job in jobs:
            yield from _run_one(job, models, machine, writer, report)


def _run_one(
    job: Job, models: LiveModels, machine: Machine, writer: RowWriter, report: Report
) -> Iterator[Result]:
    """Yield the result of a job whose model is loaded; nothing if its data are absent."""
    machine.progress.begin(job.model.name, job.task.spec.name)
    start = machine.now()
    work = partial(_run_probe, job, models, machine, writer)
    ended = run_in_all(work, machine.processes, _remedy(job.model, machine))
    if ended.status == "unavailable":
        report.absent[job.task.spec.name] = ended.value
    elif ended.status == "ok":
        row, outcome, run = ended.value
        machine.remember(job.model.name, work_of(job), start)
        yield writer.write(rows.finish_row(row, job, outcome, run), outcome)
    elif ended.status == "too few" and job.limited:
        yield writer.write(rows.skip_for_limit(job, ended.value))
    else:
        status = "skipped" if ended.status == "skipped" else "failed"
        yield writer.write(rows.without_scores(job, status, ended.value))


def _run_probe(job: Job, models: LiveModels, machine: Machine, writer: RowWriter) -> Any:
    """Return the begun row of a job, its outcome and the facts of the run.

    Raises IdentityClash where the board has this name with other weights.
    """
    row = rows.begin_row(job, models)
    writer.refuse_clash(row)
    return row, *run_job(job, models, machine)


def run_in_all(work: Callable[[], Any], processes: Processes, remedy: str) -> Ended:
    """Do work, and return how it ended, the same in every process; an ok value is its own.

    The `remedy` is told where memory did not suffice. What stops a run passes through: boards that
    cannot be written, names that clash.
    """
    try:
        with exits_as_errors():
            ended = Ended("ok", work())
    except (OutputError, IdentityClash, ProcessLost):
        raise
    except EndedElsewhere as error:
        return error.ended
    except Exception as error:  # noqa: BLE001 - somebody's probe or adapter: any error is a result
        ended = verdict(error)
        if ended.status == "failed" and _is_of_memory(error):
            ended = Ended("failed", f"{ended.value}; {remedy}")
    try:
        processes.exchange(Ended(ended.status, None if ended.status == "ok" else ended.value))
    except EndedElsewhere as error:
        return error.ended
    return ended


def _is_of_memory(error: BaseException | None) -> bool:
    """Return whether memory did not suffice, which PyTorch tells by words alone on a CPU."""
    if error is None or isinstance(error, MemoryError | torch.OutOfMemoryError):
        return error is not None
    says = message_of(error) if isinstance(error, RuntimeError) else ""
    of_cpu = any(words in says for words in NO_MEMORY)
    return of_cpu or _is_of_memory(error.__cause__)


def _remedy(model: Model, machine: Machine) -> str:
    """Return the options that make a model take less memory, as far as they are not used up."""
    settings = machine.settings
    known = {} if model.instance is not None else parameters(model.adapter)
    dtype = str(settings.dtype).removeprefix("torch.")
    ways = memory_options(known, settings.batch_size, dtype)
    return f"for less memory, try {' or '.join(ways)}" if ways else "it needs a larger machine"
