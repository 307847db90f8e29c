"""What to fetch and run for rows that are missing: weights, data, and the command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.leaderboard.reproduction.measured import Lack
from vlbench.leaderboard.tables import plain_table

ROOT = "$VLBENCH_DATA/"


def to_fetch(lacks: Sequence[Lack], catalog: Catalog, output: Path) -> list[str | Table]:
    """Return tables of the weights and the data that rows lack, and the command that makes them."""
    if not lacks:
        return []
    # A summary may hold a model twice, as `clip-rn50 (text)`.
    models = list(dict.fromkeys(lack.model.partition(" (")[0] for lack in lacks))
    named = [catalog.tasks[task] for task in dict.fromkeys(lack.task for lack in lacks)]
    tasks = [catalog.tasks[name] for spec in named for name in spec.group or [spec.name]]
    helpers = [name for spec in tasks for name in _models_in(spec, catalog)]
    weights = [[name, _weights(name, catalog)] for name in dict.fromkeys([*models, *helpers])]
    shown: list[str | Table] = [plain_table(["weights of", "where they are"], weights)]
    data: dict[str, list[str]] = {}
    for spec in tasks:
        for folder in _folders(spec.data):
            data.setdefault(folder, []).append(spec.name)
    rows = [[folder, ", ".join(dict.fromkeys(names))] for folder, names in data.items()]
    shown += [plain_table(["data in", "of"], rows)] if rows else []
    return [*shown, *_commands(models, named, catalog, output)]


def _commands(
    models: Sequence[str], named: Sequence[TaskSpec], catalog: Catalog, output: Path
) -> Iterator[str]:
    """Yield what to run; a dry run says where absent data come from."""
    known = [name for name in models if name in catalog.models]
    there = [name for name in known if not catalog.models[name].unavailable]
    where = shlex.quote(str(output))
    if there:
        tasks = ",".join(spec.name for spec in named)
        yield "Then run this (with --dry-run it says where absent data come from):"
        yield f"vlbench --model {','.join(there)} --tasks {tasks} --output {where}"
        if any(spec.group for spec in named):
            yield f"vlbench leaderboard build --output {where}"


def _weights(name: str, catalog: Catalog) -> str:
    model = catalog.models.get(name)
    if model is None:
        return "no models.yaml lists this model"
    return f"unavailable: {model.unavailable}" if model.unavailable else model.weights or "not said"


def _models_in(spec: TaskSpec, catalog: Catalog) -> list[str]:
    """Return the models that a task's parameters name, such as a detector."""
    given = [value for value in spec.params.values() if isinstance(value, str)]
    return [value for value in given if value in catalog.models]


def _folders(value: Any) -> Iterator[str]:
    """Yield the folders of $VLBENCH_DATA that a task's data name."""
    if isinstance(value, str) and value.startswith(ROOT):
        yield ROOT + value.removeprefix(ROOT).partition("/")[0]
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(parts, list) or isinstance(value, Mapping):
        for part in parts:
            yield from _folders(part)
