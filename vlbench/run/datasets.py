"""Loads each data set once during planning, however many tasks and models use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlbench.capabilities import Recording, has
from vlbench.data.pictures import only_in_pictures
from vlbench.data.records import Data
from vlbench.errors import CannotDo, DataAbsent, DataError, SpecError
from vlbench.run.model import Model
from vlbench.run.task import Task, splits_read
from vlbench.schema import parameters


class DataSets:
    """Loads data sets, at most `limit` rows per split if a limit is given, and keeps them."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._loaded: dict[str, Data] = {}

    def load(self, task: Task, model: Model) -> Data:
        """Return the task's data, with the regions that the model reads.

        If the task sets compare_across_regions, regions are only in pictures. Raises CannotDo if
        the task has no regions of the model's kind, SpecError for a loader that returns no Data,
        DataAbsent, and whatever else a loader raises.
        """
        arguments = {**task.loader_arguments, **_regions(task, model), **_pixels(task, model)}
        arguments |= _recording(task, model)
        key = repr((task.loader, sorted(arguments.items())))
        if key not in self._loaded:
            self._loaded[key] = self._load(task, arguments)
        data = self._loaded[key]
        return only_in_pictures(data) if task.spec.compare_across_regions else data

    def views(self, task: Task, model: Model) -> dict[str, Data]:
        """Return the task's data for each companion that reads another kind of regions.

        They are given by the companion's key. Raises what `load` raises.
        """
        kind = model.spec.regions.get("kind")
        return {
            companion.key: self.load(task, companion)
            for companion in task.all_companions
            if task.regions and companion.spec.regions.get("kind") not in {None, kind}
        }

    def _load(self, task: Task, arguments: Mapping[str, Any]) -> Data:
        data = task.loader(**arguments)
        if not isinstance(data, Data):
            kind = type(data).__name__
            raise SpecError(f"{task.spec.data['loader']} returned a {kind}, not Data")
        return data if self._limit is None else data.limited(self._limit)


def _regions(task: Task, model: Model) -> dict[str, Any]:
    """Return the loader's argument for the regions that a model reads; empty without regions."""
    kind = model.spec.regions.get("kind")
    if not task.regions:
        return {}
    if kind is not None and kind not in task.regions:
        choices = ", ".join(task.regions)
        raise CannotDo(f"{model.spec.name} reads regions of kind {kind}; the task has {choices}")
    return {"regions": task.regions[kind] if kind else None}


def _pixels(task: Task, model: Model) -> dict[str, Any]:
    """Return the loader's argument that a recording needs no images, if the loader has it."""
    looked_up = has(model.base.adapter, Recording) and "pixels" in parameters(task.loader)
    return {"pixels": False} if looked_up else {}


def _recording(task: Task, model: Model) -> dict[str, Any]:
    """Return the loader's argument for items that a recording contains, if the loader has it.

    Raises CannotDo for a model that is no recording in a file.
    """
    if "recording" not in parameters(task.loader):
        return {}
    arguments = model.base.arguments
    if model.base.instance is not None:
        arguments = getattr(model.base.instance, "arguments", {})
    if not has(model.base.adapter, Recording) or "path" not in arguments:
        raise CannotDo("the task reads its items from the log of a model: --model recorded:LOG")
    return {"recording": arguments}


def require_splits(task: Task, data: Data) -> None:
    """Raise DataAbsent if a split that the probe reads is missing, DataError if it is empty."""
    for name in splits_read(task.probe, task.arguments):
        if name is ...:
            continue
        try:
            rows = data.splits[name]
        except DataAbsent as error:
            root = task.loader_arguments.get("root")
            where = f"where {task.spec.data['loader'].rpartition(':')[2]}'s other data come from"
            raise DataAbsent(error.what, where, str(root)) if root else error from None
        if not len(rows):
            raise DataError(f"the split '{name}' of {task.spec.data['loader']} has no rows")


def require_region_widths(task: Task, model: Model, data: Data, views: Mapping[str, Data]) -> None:
    """Raise SpecError if region vectors do not have the width that the model or a companion reads.

    This reads a picture, so a scene that is not drawn yet is drawn.
    """
    _require_width(data, task, model)
    for companion in task.all_companions:
        if companion.key in views:
            _require_width(views[companion.key], task, companion)


def _require_width(data: Data, task: Task, model: Model) -> None:
    width = model.spec.regions.get("width")
    for split in data.splits.values():
        if not (task.regions and width and "picture" in split.columns and len(split)):
            continue
        regions = split["picture"][0].regions
        if regions is None or regions.vectors is None or regions.vectors.shape[1] == width:
            continue
        size = regions.vectors.shape[1]
        raise SpecError(
            f"{task.spec.document.where('data', 'regions')}: region vectors are {size} wide, "
            f"{model.spec.name} reads {width}"
        )
