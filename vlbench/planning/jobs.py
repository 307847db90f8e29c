"""Jobs: one model on one task, and whether it can run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any

from vlbench.boards import board_file, read_board
from vlbench.data.records import Data
from vlbench.digests import digest
from vlbench.engine.fingerprints import contents, identified
from vlbench.engine.processes import verdict
from vlbench.errors import CannotDo, DataAbsent, SpecError, exits_as_errors
from vlbench.identity import code_digest
from vlbench.metrics.captions import require_installed
from vlbench.planning.datasets import DataSets, require_splits
from vlbench.planning.models import Model, fit
from vlbench.planning.options import Options
from vlbench.planning.tasks import Task
from vlbench.results import Result


def existing_rows(output: Path | None, task: str) -> Sequence[Result]:
    """Return the rows of a task's board; none without a board or an `output`.

    Raises SpecError for a malformed board of the task, archived ones too.
    """
    if output is None:
        return []
    archived = sorted(output.glob(f"archive/{escape(task)}.v*.json"))
    board, *_ = [read_board(file) for file in (board_file(output, task), *archived)]
    return board.results if board else []


def kept_result(rows: Sequence[Result], model: str, request: str) -> Result | None:
    """Return the ok row of a model with this request, or None; also None for an empty request."""
    mine = [row for row in rows if row.status == "ok" and row.model == model]
    return next((row for row in mine if request and row.request == request), None)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One model on one task: both resolved, the task's data, and what is to become of it.

    `status` is run, kept, skipped, unavailable or failed. `request` digests all that the row
    depends on and that is known before weights load; it is empty where something of that is
    unknown. `data` is None where they could not be had or are not needed; they are `limited` by
    --limit. `views` are the data as companions read them whose regions are of another kind, by the
    companion's key. `result` is the row that is kept.
    """

    model: Model
    task: Task
    status: str = "run"
    reason: str = ""
    request: str = ""
    data: Data | None = None
    views: Mapping[str, Data] = field(default_factory=dict)
    result: Result | None = None
    limited: bool = False


def make_job(
    model: Model, task: Task, datasets: DataSets, standing: Sequence[Result], options: Options
) -> Job:
    """Return the job of a model on a task: to run, kept, or why it cannot run here.

    `standing` are the rows of the task's board. Raises SpecError for a task's file that cannot be
    right.
    """
    model, gap = fit(model, task.needs)
    if gap:
        return Job(model=model, task=task, status="skipped", reason=f"the model has no {gap}")
    try:
        _require_files(task)
        require_installed(task.words)
        with exits_as_errors():
            data, views = datasets.load(task, model), datasets.views(task, model)
        require_splits(task, data)
    except CannotDo as error:
        return Job(model=model, task=task, status="skipped", reason=str(error))
    except DataAbsent as error:
        return Job(model=model, task=task, status="unavailable", reason=str(error))
    except SpecError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody's loader: any error is a result
        return Job(model=model, task=task, status="failed", reason=verdict(error).value)
    request = request_of(model, task, [data, *views.values()], options)
    kept = kept_result(standing, model.name, request)
    if kept is None or options.overwrite:
        limited = options.limit is not None
        return Job(model=model, task=task, data=data, views=views, request=request, limited=limited)
    return Job(model=model, task=task, request=request, status="kept", result=kept)


def _require_files(task: Task) -> None:
    """Raise DataAbsent for a file that the probe's arguments name and that is not there."""
    for key, path in task.files.items():
        if not path.exists():
            raise DataAbsent(f"'{key}' of {task.spec.name}", "whoever made it", str(path))


def request_of(model: Model, task: Task, data: Sequence[Data], options: Options) -> str:
    """Return the digest of all that a row depends on and that is known before weights load.

    It is empty, which no board's row answers, where nothing identifies some code or an adapter
    object.
    """
    settings = options.settings()
    companions = [one for several in task.companions.values() for one in several]
    models = [part for whole in (model, *companions) for part in whole.parts()]
    wrappers = [one.wrapper for one in models if one.wrapper]
    things = (task.probe, task.loader, *(one.adapter for one in models), *wrappers)
    code = [code_digest(thing) for thing in things]
    made = "by its arguments"
    if model.instance is not None:
        made = identified(model.instance, None, settings.device, settings.dtype).identity
    if not made or not all(code):
        return ""
    parts: dict[str, Any] = {
        "task": task.fixed,
        "data": [one.digest() for one in data] if len(data) > 1 else data[0].digest(),
        "code": code,
        "models": [
            [m.adapter.__qualname__, contents(m.arguments), *([m.encode_by] if m.wrapper else [])]
            for m in models
        ],
        "made": made,
        "place": [settings.device.type, options.dtype],
    }
    return digest(parts)
