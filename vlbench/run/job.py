"""Jobs: one model on one task, and whether it can run here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

from vlbench.boards.board import board_file, read_board
from vlbench.code.fingerprints import identified
from vlbench.code.identity import code_digest
from vlbench.data.presence import absence
from vlbench.data.records import Data
from vlbench.engine.processes import verdict
from vlbench.errors import CannotDo, DataAbsent, SpecError, exits_as_errors
from vlbench.metrics.captions import require_installed
from vlbench.results import Result, Status
from vlbench.run.datasets import DataSets, require_splits
from vlbench.run.model import Model, fit
from vlbench.run.options import Options
from vlbench.run.task import Task
from vlbench.run.weights import Weights
from vlbench.system.digests import digest


def existing_rows(output: Path | None, task: str) -> Sequence[Result]:
    """Return the rows of a task's board; empty if there is no board or no `output`.

    Raises SpecError for a malformed board of the task, including archived boards.
    """
    if output is None:
        return []
    archived = sorted(output.glob(f"archive/{escape(task)}.v*.json"))
    board, *_ = [read_board(file) for file in (board_file(output, task), *archived)]
    return board.results if board else []


def kept_result(rows: Sequence[Result], model: str, request: str) -> Result | None:
    """Return the ok row of a model with this request; None for no row or an empty request."""
    results = _ok_rows(rows, model)
    return next((row for row in results if request and row.request == request), None)


def _ok_rows(rows: Sequence[Result], model: str) -> list[Result]:
    return [row for row in rows if row.status == "ok" and row.model == model]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One model on one task: both resolved, the task's data, and the decision.

    The `reason` of a job that runs is why it runs again, if its board has a row; `missing` has the
    reason why weights are unavailable, by model name. `request` digests everything that the row
    depends on and that is known before weights load; it is empty if some of it is unknown. `data`
    is None if they are absent or not needed; `limited` is whether --limit applies. `views` are the
    data for companions that read another kind of regions, by the companion's key. `result` is the
    row that is kept.
    """

    model: Model
    task: Task
    status: Status = "run"
    reason: str = ""
    request: str = ""
    data: Data | None = None
    views: Mapping[str, Data] = field(default_factory=dict)
    result: Result | None = None
    limited: bool = False
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def wants_weights(self) -> bool:
        """Whether it fails because weights are unavailable."""
        return self.status == "failed" and self.reason == _missing_reason(self.missing) != ""

    def models(self) -> list[Model]:
        """Return the model, the task's companions, and the models that these are made from."""
        whole = (self.model, *self.task.all_companions)
        return [part for model in whole for part in model.parts()]


def decide(
    model: Model,
    task: Task,
    datasets: DataSets,
    weights: Weights,
    standing: Sequence[Result],
    options: Options,
) -> Job:
    """Return the job of a model on a task: to run, kept, or why it cannot run here.

    `standing` are the rows of the task's board. If weights are missing, data are read only if the
    row may be kept. Raises SpecError for an invalid file.
    """
    model, gap = fit(model, task.needs)
    if gap:
        return Job(model=model, task=task, status="skipped", reason=f"the model has no {gap}")
    missing = weights.missing(model, task)
    job = Job(model=model, task=task)
    if missing:
        job = replace(job, status="failed", reason=_missing_reason(missing), missing=missing)
    if missing and (options.overwrite or not _ok_rows(standing, model.name)):
        return _attempt(job, partial(_require_data, job, datasets))
    read = _attempt(job, partial(_read, job, datasets))
    if read.data is None:
        return read
    request = request_of(model, task, [read.data, *read.views.values()], options)
    kept = kept_result(standing, model.name, request)
    if kept and not options.overwrite:
        return Job(model=model, task=task, request=request, status="kept", result=kept)
    limited = options.limit is not None
    reason = _why_again(_ok_rows(standing, model.name), read, options)
    return job if missing else replace(read, request=request, limited=limited, reason=reason)


def _missing_reason(missing: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in missing.items())


def _why_again(rows: Sequence[Result], job: Job, options: Options) -> str:
    """Return why a job runs although its board has rows of its model; empty if it has none."""
    assert job.data
    if not rows or options.overwrite:
        return "--overwrite" if rows else ""
    row = rows[-1]
    if row.version != job.task.spec.version:
        return f"the row is of version {row.version} of the task"
    if not str(row.provenance.get("data", "")).endswith(job.data.digest()):
        return "the data are not the data of the row"
    if any(model.may_change for model in job.models()):
        return "the server's weights may have changed since the row; pass --name if they have not"
    return "parameters, weights or code have changed since the row"


def _attempt(job: Job, work: Callable[[], Job]) -> Job:
    """Return the job that `work` returns, or why the job cannot run here."""
    try:
        return work()
    except CannotDo as error:
        return replace(job, status="skipped", reason=str(error))
    except DataAbsent as error:
        return replace(job, status="unavailable", reason=str(error))
    except SpecError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody's loader: any error is a result
        return replace(job, status="failed", reason=verdict(error).value)


def _read(job: Job, datasets: DataSets) -> Job:
    """Return a job with its data. Raises DataAbsent, and whatever else a loader raises."""
    for key, path in job.task.files.items():
        require_file(key, path)
    require_installed(job.task.words)
    with exits_as_errors():
        data, views = datasets.load(job.task, job.model), datasets.views(job.task, job.model)
    require_splits(job.task, data)
    return replace(job, data=data, views=views)


def _require_data(job: Job, datasets: DataSets) -> Job:
    """Return a job without weights, after checking, not reading, its data. Raises DataAbsent."""
    if absent := absence(partial(_read, job, datasets)):
        raise absent
    return job


def require_file(key: str, path: Path) -> None:
    """Raise DataAbsent for a missing file that a task's params name."""
    if not path.exists():
        raise DataAbsent(f"what '{key}' of the task names", "the people who made it", str(path))


def request_of(model: Model, task: Task, data: Sequence[Data], options: Options) -> str:
    """Return the digest of everything that a row depends on and that is known before weights load.

    It is empty, which matches no row of a board, if some code, an adapter object or a server's
    model cannot be identified.
    """
    settings = options.settings()
    wholes = [model, *task.all_companions]
    models = [part for whole in wholes for part in whole.parts()]
    things = (task.probe, task.loader, *(part.adapter for part in models))
    code = [code_digest(thing) for thing in things]
    made, instance = "by its arguments", model.base.instance
    if instance is not None:
        made = identified(instance, None, settings.device, settings.dtype).identity
    if not made or not all(code) or any(whole.may_change for whole in wholes):
        return ""
    parts: dict[str, Any] = {
        "task": task.fixed,
        "data": [view.digest() for view in data] if len(data) > 1 else data[0].digest(),
        "code": code,
        "models": [[model.adapter.__qualname__, model.contents] for model in models],
        "made": made,
        "place": [settings.device.type, options.dtype],
    }
    return digest(parts)
