"""The catalog: tasks and models of all sources by name, read without importing their code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from vlbench.catalog.findings import FOLDER, FindingsSpec, load_findings, task_problems
from vlbench.catalog.library_names import FORMS, named_elsewhere, recordings, split_arguments
from vlbench.catalog.sources import find_sources
from vlbench.catalog.specs import ModelSpec, TaskSpec, load_models, read_tasks
from vlbench.catalog.task_files import is_data_sets
from vlbench.errors import SpecError, UnknownNameError, unknown
from vlbench.system.files import WANTED_NAME, is_model_name

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Catalog:
    """Tasks and models by name, entries of old model names, and problems of broken tasks.

    `broken` has the problems of each task that cannot be read, by its name.
    """

    tasks: Mapping[str, TaskSpec]
    models: Mapping[str, ModelSpec]
    renamed: Mapping[str, ModelSpec] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

    def task_names(self, wanted: Sequence[str]) -> dict[str, bool]:
        """Return the tasks that names, tags, globs and `all` select; True if the user named it.

        The name of a group selects its tasks. Raises SpecError for the name of a broken file, and
        UnknownNameError with the nearest names.
        """
        if broken := [self.broken[word] for word in wanted if word in self.broken]:
            raise SpecError("\n".join(broken))
        chosen: dict[str, bool] = {}
        unknown_words = []
        for word in wanted:
            is_name = word in self.tasks
            selected = [word] if is_name else self._selected(word)
            if not selected:
                tags = {tag for task in self.tasks.values() for tag in task.tags}
                choices = {*self.tasks, *tags, "all"}
                unknown_words.append(str(unknown("task, tag or glob", word, choices)))
            for name in selected:
                members = self.tasks[name].group or [name]
                chosen |= {member: chosen.get(member, False) or is_name for member in members}
        if unknown_words:
            raise UnknownNameError("\n".join(unknown_words))
        return chosen

    def _selected(self, word: str) -> list[str]:
        """Return the tasks that a tag, a glob or `all` selects; a tag may also select groups."""
        tagged = [name for name, task in self.tasks.items() if word in task.tags]
        single = [name for name, task in self.tasks.items() if not task.group]
        return tagged or [n for n in single if word == "all" or fnmatchcase(n, word)]

    def model(self, name: str) -> ModelSpec:
        """Return a model by its name, or by its old name with a warning.

        Raises UnknownNameError with the nearest names.
        """
        if name in self.renamed:
            new = self.renamed[name].renamed
            LOGGER.warning("model %s is now %s; the old name will go", name, new)
            name = new
        if not is_model_name(name):
            raise UnknownNameError(f"{name[:40]!r} {WANTED_NAME}")
        if name not in self.models and name in FORMS:
            raise UnknownNameError(f"'{name}' is a library; a model of it is named {FORMS[name]}")
        if name not in self.models:
            if elsewhere := named_elsewhere(name):
                meant = " or ".join(elsewhere)
                raise UnknownNameError(f"no models.yaml lists '{name}'; did you mean {meant}?")
            raise unknown("model", name, self.models)
        return self.models[name]

    def model_names(self, models: Sequence[Any]) -> list[Any]:
        """Return models as given; a glob is replaced by the listed models that it matches, by name.

        A glob of `recorded:` is replaced by the files and folders that it matches. Raises
        UnknownNameError for a glob that matches no available model, and no file.
        """
        names: list[Any] = []
        for model in chain.from_iterable(map(recordings, models)):
            is_glob = isinstance(model, str) and set(model) & set("*?") and ":" not in model
            listed = [name for name, spec in self.models.items() if not spec.unavailable]
            matched = [n for n in sorted(listed) if fnmatchcase(n, model)] if is_glob else [model]
            if not matched:
                raise UnknownNameError(f"no available model matches '{model}'")
            names += matched
        return names

    def require(self, models: Sequence[str], tasks: Sequence[str] = ()) -> None:
        """Raise UnknownNameError, with the nearest names, for all words that name nothing.

        Models of a file or a library, whose names have a colon, are not checked here.
        """
        names = [n for n in self.model_names(models) if ":" not in n and n not in self.renamed]
        finds: list[Callable[[], object]] = [partial(self.task_names, tasks)]
        finds += [partial(self.model, split_arguments(name)[0]) for name in names]
        problems = []
        for find in finds:
            try:
                find()
            except UnknownNameError as error:
                problems.append(str(error))
        if problems:
            raise UnknownNameError("\n".join(problems))

    def require_images(self, folder: Path | None, tasks: Sequence[str]) -> None:
        """Raise UnknownNameError for images that are not there, or that none of the tasks reads.

        `folder` contains a user's own images; None, without any, is right for all tasks.
        """
        if folder is None:
            return
        if not folder.is_dir():
            raise UnknownNameError(f"--images: there is no folder {folder}")
        able = [name for name, task in self.tasks.items() if task.is_on_images]
        if not {*self.task_names(tasks)} & {*able}:
            raise UnknownNameError(
                f"--images: no task here reads one folder per class, as {', '.join(able)} do; for "
                "other tasks, pass --data-dir TASK=DIR"
            )


def load_catalog(include: Sequence[Path] = ()) -> Catalog:
    """Return all tasks and models. Raises SpecError with every problem of every file."""
    catalog, problems = read_catalog(include)
    if problems or catalog.broken:
        raise SpecError("\n".join([*catalog.broken.values(), *problems]))
    return catalog


def read_catalog(include: Sequence[Path] = ()) -> tuple[Catalog, list[str]]:
    """Return the tasks and models that can be read, and every problem of models and names.

    Tasks that cannot be read are in `broken`.
    """
    problems: list[str] = []
    tasks: dict[str, TaskSpec] = {}
    broken: dict[str, str] = {}
    models: dict[str, ModelSpec] = {}
    left_out: list[str] = []
    for source in find_sources(include):
        for file in sorted((source / "tasks").rglob("*.yaml")):
            if not is_findings(file) and not is_data_sets(file):
                specs, problems_by_task = read_tasks(file, source)
                _add(tasks, specs, problems, "task")
                broken |= problems_by_task
        listing = source / "model_adapters" / "models.yaml"
        listed = _tolerant(problems, partial(load_models, left_out=left_out), listing, source)
        for model in listed or []:
            _add(models, [model], problems, "model")
    for name, task in [*tasks.items()]:
        if wrong := group_problems(task, tasks):
            broken[name] = "\n".join(wrong)
            del tasks[name]
    for problem in left_out:
        _say_once(problem)
    catalog = Catalog(tasks, *split_renamed(models), broken)
    return catalog, problems + renamed_problems(catalog)


@cache
def _say_once(problem: str) -> None:
    """Log a model that is left out, once, even if a command reads the catalog several times."""
    LOGGER.warning("left out: %s", problem)


def split_renamed(
    lines: Mapping[str, ModelSpec],
) -> tuple[dict[str, ModelSpec], dict[str, ModelSpec]]:
    """Return the entries of models, and the entries of old names."""
    models = {name: spec for name, spec in lines.items() if not spec.renamed}
    return models, {name: spec for name, spec in lines.items() if spec.renamed}


def renamed_problems(catalog: Catalog) -> list[str]:
    """Return a problem for each old name whose new name is in no models.yaml."""
    return [
        f"{spec.document.where(name, 'renamed')}: {unknown('model', spec.renamed, catalog.models)}"
        for name, spec in catalog.renamed.items()
        if spec.renamed not in catalog.models
    ]


def load_all_findings(catalog: Catalog, include: Sequence[Path] = ()) -> dict[str, FindingsSpec]:
    """Return the findings of all sources by name; read separately, since few commands need them.

    Raises SpecError with every problem of every file, such as a task that is not in the catalog.
    """
    problems: list[str] = []
    findings: dict[str, FindingsSpec] = {}
    for source in find_sources(include):
        for file in sorted((source / "tasks").rglob("*.yaml")):
            if is_findings(file):
                _add(
                    findings, _tolerant(problems, load_findings, file, source), problems, "findings"
                )
    for spec in findings.values():
        problems += task_problems(spec, catalog.tasks)
    if problems:
        raise SpecError("\n".join(problems))
    return findings


def is_findings(file: Path) -> bool:
    """Return whether a YAML file contains findings instead of a task; its folder decides."""
    return file.parent.name == FOLDER


def group_problems(task: TaskSpec, tasks: Mapping[str, TaskSpec]) -> list[str]:
    """Return a problem for each member of a group that is not a task."""
    missing = [name for name in task.group if name not in tasks or tasks[name].group]
    return [f"{task.document.where('group')}: no task '{name}'" for name in missing]


def _add(
    table: dict[str, Any], specs: Sequence[Any] | None, problems: list[str], kind: str
) -> None:
    for spec in specs or []:
        if spec.name in table:
            problems.append(f"{kind} '{spec.name}' is in {table[spec.name].file} and {spec.file}")
        table.setdefault(spec.name, spec)


def _tolerant(problems: list[str], load: Any, file: Path, source: Path) -> Any:
    """Return the content of a file, or None after adding its problems to `problems`."""
    try:
        return load(file, source)
    except SpecError as error:
        problems.append(str(error))
        return None
