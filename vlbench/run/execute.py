"""Runs jobs: loads a model, calls the probe of each of its tasks, and writes each row."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import torch

from vlbench.engine import Engine, Progress
from vlbench.engine.devices import ComputeSettings, hardware, peak_memory_mb
from vlbench.engine.engine import KnownModel
from vlbench.engine.processes import Ended, EndedElsewhere, Processes, verdict
from vlbench.engine.store import Store
from vlbench.errors import IdentityClash, OutputError, ProcessLost, exits_as_errors, message_of
from vlbench.results import Outcome, Result, require_primary
from vlbench.run.job import Job
from vlbench.run.live_models import LiveModels
from vlbench.run.memory import memory_options
from vlbench.run.model import Model
from vlbench.run.row import RowWriter, begin_row, make_row, skip_for_limit, without_scores
from vlbench.schema import parameters
from vlbench.system.threads import single_thread

# PyTorch's messages if a CPU has too little memory.
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Results, including kept results; why tasks have no data, and why models did not load."""

    results: list[Result] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    not_loaded: dict[str, str] = field(default_factory=dict)


class Machine(NamedTuple):
    """The objects that all jobs of a run share."""

    settings: ComputeSettings
    store: Store
    progress: Progress
    processes: Processes


def run_model(
    jobs: Sequence[Job], machine: Machine, writer: RowWriter, report: Report
) -> Iterator[Result]:
    """Yield the results of one model's jobs; kept results go straight to the report.

    The model is loaded once for each set of arguments that tasks request, and freed before the
    next. If the model never loaded, no row is written, not even for tasks that the plan skips.
    """
    for job in jobs:
        if job.result:
            report.results.append(job.result)
        elif job.wants_weights:
            report.not_loaded.update(job.missing)
            report.results.append(without_scores(job, job.status, job.reason))
    running = [job for job in jobs if job.status == "run"]
    for alike in group_jobs(running, by=lambda job: job.model.base.key):
        models = LiveModels(
            machine.settings, machine.processes, machine.store.root.with_name("answers")
        )
        try:
            yield from _run_alike(alike, models, machine, writer, report)
        finally:
            models.free()
    tried = any(job.status in {"run", "kept"} for job in jobs)
    has_loaded = tried and jobs[0].model.name not in report.not_loaded
    for job in jobs:
        if job.status in {"skipped", "failed"} and not job.wants_weights:
            row = without_scores(job, job.status, job.reason)
            yield writer.write(row) if has_loaded else row


def _run_alike(
    jobs: Sequence[Job], models: LiveModels, machine: Machine, writer: RowWriter, report: Report
) -> Iterator[Result]:
    """Load the model of some jobs and yield their results; all fail if it does not load."""
    model, name = jobs[0].model.base, jobs[0].model.name
    remedy = _remedy(model, machine)
    machine.progress.begin(name, jobs[0].task.spec.name)
    loaded = end_of(lambda: models.get(model), machine.processes, remedy)
    for job in jobs:
        end, task = loaded, job.task.spec.name
        if loaded.status == "ok":
            machine.progress.begin(name, task)
            work = partial(_run, job, models, machine, writer)
            end = end_of(work, machine.processes, remedy)
        if end.status == "ok":
            yield writer.write(*end.value)
        elif loaded.status not in {"ok", "skipped"}:
            row = without_scores(job, "failed", end.value)
            report.not_loaded[name] = row.reason
            report.results.append(row)
        elif end.status == "unavailable":
            report.absent[task] = end.value
        else:
            limited = end.too_few and job.limited
            row = skip_for_limit(job, end.value) if limited else without_scores(job, *end[:2])
            yield writer.write(row)


def _run(
    job: Job, models: LiveModels, machine: Machine, writer: RowWriter
) -> tuple[Result, Outcome]:
    """Return the row of a job whose model is loaded, and the outcome of its probe.

    Raises IdentityClash if the board has this name with other weights, SpecError if the task's
    primary score does not match exactly one score of the probe, and whatever the probe and the
    adapter raise.
    """
    assert job.data
    models.require(job.model, job.task)
    row = begin_row(job, models)
    writer.refuse_clash(row)
    task = job.task
    live = {task.under_test: [models.get(job.model)], **models.companions(task)}
    settings = models.settings(job.model, job.data)
    engine = Engine(
        settings,
        store=machine.store,
        identities=models.identities(),
        progress=machine.progress,
        processes=machine.processes,
        known={
            id(models.get(model).adapter): KnownModel(
                model.name, job.views.get(model.key), partial(models.untrained, model)
            )
            for model in (*task.all_companions, job.model)
        },
        data=task.spec.data["loader"],
    )
    from vlbench.metrics.scores import scored  # noqa: PLC0415 - planning must not wait for pyarrow

    start = time.perf_counter()
    adapters = {
        key: task.as_annotated(key, [model.adapter for model in group])
        for key, group in live.items()
    }
    # A decorated probe takes its first parameters by position only.
    call = signature(task.probe).bind(data=job.data, engine=engine, **task.arguments, **adapters)
    with single_thread():
        result: Outcome = task.probe(*call.args, **call.kwargs)
        outcome = scored(result)
    seconds = time.perf_counter() - start
    where = task.spec.document.where("primary").rpartition("/")[2]
    require_primary(outcome, task.spec.primary_score, where)
    facts = _facts(settings, machine.processes.size, seconds)
    outcome = with_saturated(outcome, engine.saturated)
    return make_row(row, job, outcome, facts | {"trained": engine.trained}), outcome


def with_saturated(outcome: Outcome, count: int) -> Outcome:
    """Return an outcome with the number of compared probabilities that are 0 or 1, if any."""
    if not count:
        return outcome
    note = (
        f"{count:,} of the probabilities compared are exactly 0 or 1, and tied with each other: "
        'an adapter that returns log-odds (score_kind = "logit") avoids these ties'
    )
    counts, notes = {**outcome.counts, "saturated": count}, [*outcome.notes, note]
    return replace(outcome, counts=counts, notes=notes)


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


def end_of(work: Callable[[], Any], processes: Processes, remedy: str) -> Ended:
    """Do work, and return how it ended, the same in every process; the value of ok work may differ.

    The `remedy` is added to the message if memory was too small. Errors that stop a run are raised:
    boards that cannot be written, and names that clash.
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
            ended = ended._replace(value=f"{ended.value}; {remedy}")
    try:
        processes.exchange(ended._replace(value=None) if ended.status == "ok" else ended)
    except EndedElsewhere as error:
        return error.ended
    return ended


def _is_of_memory(error: BaseException | None) -> bool:
    """Return whether memory was too small; on a CPU, PyTorch shows it only in the message."""
    if error is None or isinstance(error, MemoryError | torch.OutOfMemoryError):
        return error is not None
    says = message_of(error) if isinstance(error, RuntimeError) else ""
    of_cpu = any(words in says for words in NO_MEMORY)
    return of_cpu or _is_of_memory(error.__cause__)


def _remedy(model: Model, machine: Machine) -> str:
    """Return the options that reduce a model's memory and are not used yet."""
    settings = machine.settings
    slots = {} if model.instance is not None else parameters(model.adapter)
    dtype = str(settings.dtype).removeprefix("torch.")
    ways = memory_options(slots, settings.batch_size, dtype)
    return f"for less memory, try {' or '.join(ways)}" if ways else "it needs a larger machine"


def group_jobs(jobs: Iterable[Job], by: Callable[[Job], str]) -> list[list[Job]]:
    """Return jobs in groups with the same key, in the order in which the keys first occur."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(by(job), []).append(job)
    return list(groups.values())
