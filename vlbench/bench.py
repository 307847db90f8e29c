"""plan() and run(): every model against every task, decided before any weights load, then done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vlbench import digests, hub
from vlbench.adapters import contents, know, library_versions
from vlbench.capabilities import lacking
from vlbench.catalog import load_catalog
from vlbench.data.records import Data
from vlbench.digests import digest, source_digest
from vlbench.engine import Progress, Silence
from vlbench.engine.processes import Ended, EndedElsewhere, Processes, verdict
from vlbench.errors import (
    CannotDo,
    DataAbsent,
    DataError,
    IdentityClash,
    OutputError,
    SpecError,
    UnknownNameError,
    VlbenchError,
)
from vlbench.leaderboard import boards
from vlbench.options import Options
from vlbench.planning import ModelPlan, TaskPlan, plan_model, plan_task
from vlbench.resolve import parameters
from vlbench.results import Result
from vlbench.session import Session


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model on one task: to run, or why not."""

    model: ModelPlan
    task: TaskPlan
    data: Data | None = None
    request: str = ""
    status: str = "run"  # run, kept, skipped, unavailable, failed
    reason: str = ""
    row: Mapping[str, Any] | None = None  # what the board holds, where it is kept


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All cells, models in the order given."""

    cells: Sequence[Cell]
    options: Options
    processes: Processes


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run ended with: results, tasks that lacked a split, and models that did not load."""

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
    if options.name and len(model_plans) != 1:
        raise UnknownNameError(f"--name is for one model, not {len(model_plans)}")
    shelf = Shelf(options)
    cells = [_judge(model, task, shelf) for model in model_plans for task in task_plans]
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


def evaluate(
    model: Any, tasks: str | Sequence[str], *, progress: Progress | None = None, **options: Any
) -> list[Result]:
    """Return a result for every task that `tasks` selects and that has data here.

    `model` is a name, FILE:Class, or an adapter object; several names stand in one text,
    separated by commas, as do several tasks. The keywords are those of `Options`. Boards are
    written only where `output` is given.

    Raises VlbenchError where the command line would exit with 2. A model that does not load
    gives failed results, which no board holds.
    """
    models = model.split(",") if isinstance(model, str) else [model]
    words = tasks.split(",") if isinstance(tasks, str) else list(tasks)
    return run(plan(models, words, Options(**options)), progress).results


def load_model(model: str, options: Options) -> tuple[Any, Sequence[str]]:
    """Return a live adapter and the capabilities that its line says it is without."""
    hub.settle(offline=options.offline)
    planned = plan_model(load_catalog(options.include_path), model, options)
    with Session(options, Silence(), Processes(cpu=True)) as live:
        return live.load(planned).adapter, planned.spec.without


class Shelf:
    """Data loaded once, however many tasks and models use them."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._loaded: dict[str, Data] = {}

    def load(self, task: TaskPlan, model: ModelPlan) -> Data:
        """Return the task's data, with the regions that the model reads."""
        arguments = {**task.loader_args, **task.regions_for(model)}
        if self.options.download and "download" in parameters(task.loader):
            arguments["download"] = True
        key = repr((task.loader, sorted(arguments.items())))
        if key not in self._loaded:
            data = task.loader(**arguments)
            limit = self.options.limit
            self._loaded[key] = data if limit is None else data.limited(limit)
        return self._loaded[key]


def _judge(model: ModelPlan, task: TaskPlan, shelf: Shelf) -> Cell:
    """Return whether a model can run a task here, and why not."""
    gap = lacking(model.adapter, task.needs, model.spec.without)
    if gap:
        return Cell(model=model, task=task, status="skipped", reason=f"the model has no {gap}")
    try:
        data = shelf.load(task, model)
    except CannotDo as error:
        return Cell(model=model, task=task, status="skipped", reason=str(error))
    except DataAbsent as error:
        return Cell(model=model, task=task, status="unavailable", reason=str(error))
    except DataError as error:
        return Cell(model=model, task=task, status="failed", reason=str(error))
    request = _request(model, task, data, shelf.options)
    row = boards.kept_row(shelf.options.output, task.spec.name, model.name, request)
    if row is None or shelf.options.overwrite:
        return Cell(model=model, task=task, data=data, request=request)
    return Cell(model=model, task=task, request=request, status="kept", row=row)


def _request(model: ModelPlan, task: TaskPlan, data: Data, options: Options) -> str:
    """Return the digest of all that a row depends on and that is known before weights load.

    Empty, which no board's row answers, where something has nothing to be known by.
    """
    partners = [p for partners in task.companions.values() for p in partners]
    code = [task.probe, model.adapter, *(p.adapter for p in partners)]
    sources = [source_digest(thing) for thing in code]
    identity = "made here"
    if model.instance is not None:
        place = options.torch_device(), options.torch_dtype()
        identity = know(model.instance, None, *place).identity
    if not identity or None in sources:
        return ""
    return digest(
        {
            "task": task.fixed,
            "data": data.digest(),
            "code": sources,
            "models": [contents(p.params(task.spec)) for p in [model, *partners]],
            "object": identity,
            "libraries": library_versions(code),
            "place": [options.torch_device().type, options.dtype],
        }
    )


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
    for cell in cells:
        if cell.status in {"skipped", "failed"}:
            yield live.keep(cell, cell.status, cell.reason)
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
