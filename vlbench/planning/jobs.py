"""One model on one task: whether it can run here, and what its row will answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import vlbench
from vlbench import boards
from vlbench.capabilities import lacking
from vlbench.data.records import Data
from vlbench.digests import digest, source_digest
from vlbench.engine.fingerprints import contents, know, library_versions
from vlbench.engine.processes import verdict
from vlbench.errors import CannotDo, DataAbsent, SpecError
from vlbench.planning.models import ModelPlan
from vlbench.planning.options import Options
from vlbench.planning.tasks import TaskPlan
from vlbench.resolve import parameters


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
            if not isinstance(data, Data):
                found = type(data).__name__
                raise SpecError(f"{task.spec.data['loader']} returned a {found}, not Data")
            self._loaded[key] = data if limit is None else data.limited(limit)
        _refuse_other_width(self._loaded[key], task, model)
        return self._loaded[key]


def _refuse_other_width(data: Data, task: TaskPlan, model: ModelPlan) -> None:
    """Raise SpecError where region vectors are not as wide as the model reads them."""
    wanted = model.spec.regions.get("width")
    for split in data.splits.values():
        if not (task.regions and wanted and "picture" in split.columns and len(split)):
            continue
        regions = split["picture"][0].regions
        if regions is None or regions.vectors is None or regions.vectors.shape[1] == wanted:
            continue
        found = regions.vectors.shape[1]
        raise SpecError(
            f"{task.spec.document.where('data', 'regions')}: region vectors are {found} wide, "
            f"{model.spec.name} reads {wanted}"
        )


def judge(model: ModelPlan, task: TaskPlan, shelf: Shelf) -> Cell:
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
    except SpecError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody's loader: any error is a result
        return Cell(model=model, task=task, status="failed", reason=verdict(error).value)
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
    models = [made for whole in (model, *partners) for made in whole.parts()]
    code: list[Any] = [task.probe, *(made.adapter for made in models)]
    sources = [[thing.__qualname__, source_digest(thing)] for thing in code]
    identity = "made here"
    if model.instance is not None:
        place = options.torch_device(), options.torch_dtype()
        identity = know(model.instance, None, *place).identity
    if not identity or not all(found for _, found in sources):
        return ""
    return digest(
        {
            "vlbench": vlbench.__version__,
            "task": task.fixed,
            "data": data.digest(),
            "code": sources,
            "models": [contents(made.params(task.spec)) for made in models],
            "object": identity,
            "libraries": library_versions(code),
            "place": [options.torch_device().type, options.dtype],
        }
    )
