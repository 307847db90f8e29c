"""Which tasks read data that a model was trained on, according to its entry in models.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from vlbench.catalog.specs import ModelSpec, TaskSpec


def trained_on(model: ModelSpec, task: TaskSpec) -> str:
    """Return the data set in a model's `training_data` that a task reads; "" if there is none.

    A task's data set is named by its loader's function and by the last folder of its `root`. Names
    are equal if their letters and digits are: CIFAR-10 is cifar10. The data set decides, not the
    split; groups have none.
    """
    loader = str(task.data.get("loader", "")).rpartition(":")[2]
    names = {_normal(loader), _normal(PurePath(str(task.data.get("root", ""))).name)} - {""}
    return next((name for name in model.training_data if _normal(name) in names), "")


def trained_models(
    names: Iterable[str], models: Mapping[str, ModelSpec], task: TaskSpec | None
) -> dict[str, str]:
    """Return the task's data set by the names of rows whose model was trained on it."""
    data_by_model = {}
    for name in names:
        model = models.get(name.partition("[")[0])
        if model and task and (data := trained_on(model, task)):
            data_by_model[name] = data
    return data_by_model


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
