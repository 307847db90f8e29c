"""plan() and run(): every model against every task, decided before any weights load, then done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vlbench import boards, digests, hub
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.specs import ModelSpec
from vlbench.engine import Progress, Silence
from vlbench.engine.processes import Ended, EndedElsewhere, Processes, verdict
from vlbench.errors import (
    DataError,
    IdentityClash,
    OutputError,
    SpecError,
    UnknownNameError,
    VlbenchError,
    unknown,
)
from vlbench.planning.jobs import Cell, Shelf, judge
from vlbench.planning.models import ModelPlan, plan_model
from vlbench.planning.options import Options
from vlbench.planning.tasks import TaskPlan, plan_task
from vlbench.results import Result
from vlbench.running.session import Session


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All cells, models in the order given."""

    cells: Sequence[Cell]
    options: Options
    processes: Processes


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run ended with: results, kept ones too, tasks without data, models without weights."""

    results: list[Result] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    not_loaded: dict[str, str] = field(default_factory=dict)


def plan(models: Sequence[Any], tasks: Sequence[str], options: Options) -> Plan:
    """Return what would run. Models are names, FILE:Class, or adapter objects.

    Raises SpecError and UnknownNameError with all problems in one message, and DataError where
    data of a task that the user named are absent.
    """
    hub.settle(offline=options.offline)
    digests.memory.set(options.cache_dir / "digests.sqlite" if options.cache_dir else None)
    catalog = load_catalog(options.include_path)
    problems: list[VlbenchError] = []
    task_plans = [
        task
        for name, named in catalog.task_names(tasks).items()
        for task in _attempt(problems, plan_task, catalog, name, named, options)
    ]
    model_plans = [
        model for name in models for model in _attempt(problems, plan_model, catalog, name, options)
    ]
    for model in model_plans:
        for task in [None, *(t.spec for t in task_plans)]:
            list(_attempt(problems, model.params, task))
    if problems:
        kinds = {type(problem) for problem in problems}
        kind = UnknownNameError if kinds == {UnknownNameError} else SpecError
        raise kind("\n".join(dict.fromkeys(str(problem) for problem in problems)))
    _refuse_names(model_plans, task_plans, options)
    shelf = Shelf(options)
    cells = [judge(model, task, shelf) for model in model_plans for task in task_plans]
    absent = [c for c in cells if c.status == "unavailable" and c.task.named]
    if absent:
        lines = dict.fromkeys(f"{c.task.spec.name}: {c.reason}" for c in absent)
        raise DataError("\n".join(lines))
    processes = Processes(cpu=options.torch_device().type == "cpu")
    agreed = processes.exchange([(cell.status, cell.reason, cell.row) for cell in cells])[0]
    same = [
        replace(c, status=s, reason=r, row=w) for c, (s, r, w) in zip(cells, agreed, strict=True)
    ]
    return Plan(cells=same, options=options, processes=processes)


def _refuse_names(models: Sequence[ModelPlan], tasks: Sequence[TaskPlan], options: Options) -> None:
    """Raise UnknownNameError for names that two models share, or that no data have."""
    if options.name and len(models) != 1:
        raise UnknownNameError(f"--name is for one model, not {len(models)}")
    names = [model.name for model in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UnknownNameError(
            f"two models would have rows named {', '.join(twice)}; run them apart"
        )
    known = {task.spec.name for task in tasks} | {task.loader.__name__ for task in tasks}
    for name in options.data_dir:
        if name and name not in known:
            raise unknown("selected task, or loader of one,", name, known)


def evaluate(
    model: Any, tasks: str | Sequence[str], *, progress: Progress | None = None, **options: Any
) -> list[Result]:
    """Return a result for every task that `tasks` selects and that has data here.

    `model` is a name, FILE:Class, or an adapter object; several stand in a list, or names in one
    text, separated by commas, as do several tasks. The keywords are those of `Options`. Boards are
    written only where `output` is given.

    Raises VlbenchError where the command line would exit with 2. A model that does not load
    gives failed results, which no board holds.
    """
    several = model.split(",") if isinstance(model, str) else model
    models = list(dict.fromkeys(several)) if isinstance(several, list | tuple) else [several]
    words = tasks.split(",") if isinstance(tasks, str) else list(tasks)
    return run(plan(models, words, Options.of(**options)), progress).results


def load_model(model: str, options: Options) -> tuple[Any, ModelSpec]:
    """Return a live adapter and its line."""
    hub.settle(offline=options.offline)
    planned = plan_model(load_catalog(options.include_path), model, options)
    with Session(options, Silence(), Processes(cpu=True)) as live:
        return live.load(planned).adapter, planned.spec


def run(planned: Plan, progress: Progress | None = None) -> Report:
    """Run what the plan says, writing each board as soon as its task is done.

    Raises OutputError where a board cannot be written, IdentityClash where a row of the same
    name stands for other weights.
    """
    report = Report()
    options = planned.options
    if options.output and options.limit is None and planned.processes.is_main:
        boards.require_writable(options.output)
    listener = progress or Silence()
    with Session(options, listener, planned.processes) as live:
        for model in dict.fromkeys(id(c.model) for c in planned.cells):
            cells = [c for c in planned.cells if id(c.model) == model]
            for result in _run_model(cells, live, report):
                report.results.append(result)
                listener.done(result)
    return report


def _run_model(cells: Sequence[Cell], live: Session, report: Report) -> Iterator[Result]:
    """Yield a result for each cell of one model, loading it once for each set of arguments."""
    report.results.extend(live.read(cell, cell.row) for cell in cells if cell.row)
    decided = [cell for cell in cells if cell.status in {"skipped", "failed"}]
    yield from (live.keep(cell, cell.status, cell.reason) for cell in decided)
    todo = [cell for cell in cells if cell.status == "run"]
    for params in dict.fromkeys(repr(c.model.params(c.task.spec)) for c in todo):
        group = [c for c in todo if repr(c.model.params(c.task.spec)) == params]
        status, why = guarded(live.open, group[0], live.processes)
        if status == "ok":
            for cell in group:
                ended = guarded(live.probe, cell, live.processes)
                if ended.status == "unavailable":
                    report.absent[cell.task.spec.name] = ended.value
                else:
                    yield live.keep(cell, *ended)
            live.close()
        elif status == "skipped":
            yield from (live.keep(cell, status, why) for cell in group)
        else:
            report.not_loaded[cells[0].model.name] = why
            report.results.extend(live.result(cell, "failed", reason=why) for cell in group)


def guarded(work: Callable[[Cell], Any], cell: Cell, processes: Processes) -> Ended:
    """Return how a cell's work ended, the same in every process; the value is this process's own.

    What stops a run passes through: boards that cannot be written, names that clash.
    """
    try:
        ended = Ended("ok", work(cell))
    except (OutputError, IdentityClash):
        raise
    except EndedElsewhere as error:
        return error.ended
    except Exception as error:  # noqa: BLE001 - somebody's probe or adapter: any error is a result
        ended = verdict(error)
    try:
        processes.exchange(Ended(ended.status, None if ended.status == "ok" else ended.value))
    except EndedElsewhere as error:
        return error.ended
    return ended


def _attempt(
    problems: list[VlbenchError], function: Callable[..., Any], *arguments: Any
) -> Iterator[Any]:
    """Yield what a function returns, or nothing, with its problem noted."""
    try:
        yield function(*arguments)
    except (SpecError, UnknownNameError) as error:
        problems.append(error)
