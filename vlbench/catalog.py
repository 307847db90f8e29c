"""What there is: tasks and models of all sources, read without importing what they name."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from vlbench.errors import SpecError, unknown
from vlbench.specs import ModelSpec, TaskSpec, load_models, load_task

ENTRY_POINTS = "vlbench.sources"


@dataclass(frozen=True)
class Catalog:
    """Tasks and models by name."""

    tasks: Mapping[str, TaskSpec]
    models: Mapping[str, ModelSpec]

    def task_names(self, wanted: Sequence[str]) -> dict[str, bool]:
        """Return the tasks that names, tags, globs and `all` select; True: named by the user.

        A group stands for its tasks. Raises UnknownNameError with the nearest names.
        """
        chosen: dict[str, bool] = {}
        for word in wanted:
            named = word in self.tasks
            for name in self._selected(word):
                members = self.tasks[name].group or [name]
                chosen |= {member: chosen.get(member, False) or named for member in members}
        return chosen

    def _selected(self, word: str) -> list[str]:
        if word in self.tasks:
            return [word]
        single = {name: task for name, task in self.tasks.items() if not task.group}
        found = [
            name
            for name, task in single.items()
            if word == "all" or word in task.tags or fnmatchcase(name, word)
        ]
        if not found:
            tags = {tag for task in self.tasks.values() for tag in task.tags}
            raise unknown("task, tag or glob", word, {*self.tasks, *tags, "all"})
        return found

    def model(self, name: str) -> ModelSpec:
        """Return a model by name. Raises UnknownNameError with the nearest names."""
        if name not in self.models:
            raise unknown("model", name, self.models)
        return self.models[name]


def shipped_source() -> Path:
    """Return the folder with vlbench's own tasks: inside a wheel, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package if (package / "tasks").is_dir() else package.parent


def find_sources(include: Sequence[Path] = ()) -> list[Path]:
    """Return every source: shipped, of entry points, and included. Raises SpecError."""
    found = [shipped_source()]
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        spec = importlib.util.find_spec(point.module)
        if spec is None or not spec.submodule_search_locations:
            raise SpecError(f"entry point '{point.name}': '{point.value}' is not a package")
        found.append(Path(spec.submodule_search_locations[0]))
    for folder in include:
        if not any((folder / part).is_dir() for part in ("tasks", "model_adapters")):
            raise SpecError(f"{folder}: a source has a folder tasks/ or model_adapters/")
        found.append(folder)
    return list(dict.fromkeys(source.resolve() for source in found))


def load_catalog(include: Sequence[Path] = ()) -> Catalog:
    """Return all tasks and models. Raises SpecError with every problem of every file."""
    problems: list[str] = []
    tasks: dict[str, TaskSpec] = {}
    models: dict[str, ModelSpec] = {}
    for source in find_sources(include):
        for file in sorted((source / "tasks").rglob("*.yaml")):
            _add(tasks, _tolerant(problems, load_task, file, source), problems, "task")
        listing = source / "model_adapters" / "models.yaml"
        for model in _tolerant(problems, load_models, listing, source) or []:
            _add(models, [model], problems, "model")
    for task in tasks.values():
        missing = [name for name in task.group if name not in tasks or tasks[name].group]
        problems += [f"{task.document.where('group')}: no task '{name}'" for name in missing]
    if problems:
        raise SpecError("\n".join(problems))
    return Catalog(tasks, models)


def _add(
    table: dict[str, Any], found: Sequence[Any] | None, problems: list[str], kind: str
) -> None:
    for spec in found or []:
        if spec.name in table:
            problems.append(f"{kind} '{spec.name}' is in {table[spec.name].file} and {spec.file}")
        table.setdefault(spec.name, spec)


def _tolerant(problems: list[str], load: Any, file: Path, source: Path) -> Any:
    """Return what a file holds, or None with its problems noted."""
    try:
        return load(file, source)
    except SpecError as error:
        problems.append(str(error))
        return None
