"""The plan: every model on every task, decided before any weights load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from vlbench.catalog.catalog import Catalog, read_catalog
from vlbench.engine.processes import Processes
from vlbench.errors import (
    DataError,
    SpecError,
    UnknownNameError,
    VlbenchError,
    WeightsError,
    listed,
)
from vlbench.run.datasets import DataSets
from vlbench.run.job import Job, decide, existing_rows
from vlbench.run.model import Model, resolve_model
from vlbench.run.options import Options
from vlbench.run.task import Task, require_read, resolve_task
from vlbench.run.weights import Weights
from vlbench.system.files import WANTED_NAME, is_model_name

Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All jobs, models in the order given, with the options that they are planned for.

    `broken` are the problems of tasks that a tag, a glob or `all` might have meant.
    """

    jobs: Sequence[Job]
    options: Options
    broken: Sequence[str] = ()


def plan(models: Sequence[Any], tasks: Sequence[str], options: Options) -> Plan:
    """Return the plan of a run. Models are names, FILE:Class, or adapter objects.

    Raises SpecError, UnknownNameError and WeightsError with all problems in one message, SpecError
    for a malformed board, and DataError, which also lists unavailable weights, if data of a task
    that the user named are absent.
    """
    catalog, wrong = read_catalog(options.include_path)
    if wrong:
        raise SpecError("\n".join(wrong))
    problems, broken = _Problems(), list[str]()
    if set(tasks) - set(catalog.tasks):
        broken += catalog.broken.values()
    resolved_tasks = _resolve_tasks(catalog, tasks, options, problems, broken)
    resolved_models = [
        model
        for name in catalog.model_names(models)
        for model in problems.of(resolve_model, catalog, name, options)
    ]
    pairs = [
        (problems.of(model.for_task, task.spec), task)
        for model in resolved_models
        for task in resolved_tasks
    ]
    problems.require_none()
    _refuse_names(resolved_models, options)
    require_read(catalog, tasks, options)
    standing = {
        task.spec.name: existing_rows(options.output, task.spec.name) for task in resolved_tasks
    }
    datasets, weights = DataSets(options.limit), Weights()
    jobs = [
        decide(model, task, datasets, weights, standing[task.spec.name], options)
        for (model,), task in pairs
    ]
    absent = [job for job in jobs if job.status == "unavailable" and job.task.named]
    if absent:
        lines = [f"{job.task.spec.name}: {job.reason}" for job in absent]
        lines += missing_weights(jobs)
        raise DataError("\n".join(dict.fromkeys(lines)))
    return Plan(jobs=jobs, options=options, broken=broken)


def agree(planned: Plan, processes: Processes) -> Plan:
    """Return the first process's plan in every process, since files may change during planning."""
    choices = [(job.status, job.reason, job.result, job.missing) for job in planned.jobs]
    decided = processes.exchange(choices)[0]
    jobs = [
        replace(job, status=status, reason=reason, result=result, missing=missing)
        for job, (status, reason, result, missing) in zip(planned.jobs, decided, strict=True)
    ]
    return replace(planned, jobs=jobs)


def missing_weights(jobs: Sequence[Job]) -> list[str]:
    """Return each model without available weights, with the reason, and tasks of companions."""
    tasks: dict[tuple[str, str], set[str]] = {}
    for job in jobs:
        for name, why in job.missing.items() if job.status != "kept" else ():
            companion_of = {job.task.spec.name} if name != job.model.name else set()
            tasks.setdefault((name, why), set()).update(companion_of)
    ends = {name: f" (for {listed(of)})" if of else "" for (name, _), of in tasks.items()}
    return [f"{name}{ends[name]}: {why}" for name, why in tasks]


@dataclass(frozen=True)
class _Problems:
    """Collects errors in files and names, to raise them as one message."""

    found: list[VlbenchError] = field(default_factory=list)

    def of(self, function: Callable[..., Found], *arguments: Any) -> list[Found]:
        """Return the result of a function in a list; if it raises such an error, keep the error."""
        try:
            return [function(*arguments)]
        except (SpecError, UnknownNameError, WeightsError) as error:
            self.found.append(error)
            return []

    def require_none(self) -> None:
        """Raise all errors as one."""
        if self.found:
            kinds = {type(problem) for problem in self.found}
            kind = kinds.pop() if len(kinds) == 1 else SpecError
            raise kind("\n".join(dict.fromkeys(str(problem) for problem in self.found)))


def _resolve_tasks(
    catalog: Catalog,
    tasks: Sequence[str],
    options: Options,
    problems: _Problems,
    broken: list[str],
) -> list[Task]:
    """Return the tasks that can run; record the problems of the others."""
    resolved = []
    for name, named in catalog.task_names(tasks).items():
        if named:
            resolved += problems.of(resolve_task, catalog, name, named, options)
            continue
        try:
            resolved.append(resolve_task(catalog, name, named, options))
        except SpecError as error:
            broken.append(str(error))
    return resolved


def _refuse_names(models: Sequence[Model], options: Options) -> None:
    """Raise UnknownNameError for invalid or shared names of models."""
    if options.name and len(models) != 1:
        raise UnknownNameError(f"--name is for one model, not {len(models)}")
    names = [model.name for model in models]
    for name in names:
        if not is_model_name(name):
            raise UnknownNameError(f"{name!r} {WANTED_NAME}; give another --name")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UnknownNameError(
            f"two models would have rows named {', '.join(twice)}; run them separately"
        )
