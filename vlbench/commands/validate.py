"""`vlbench validate`: check files of tasks and findings, and models.yaml."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vlbench.catalog.catalog import (
    Catalog,
    group_problems,
    is_findings,
    load_all_findings,
    read_catalog,
    renamed_problems,
    split_renamed,
)
from vlbench.catalog.findings import load_findings, task_problems
from vlbench.catalog.listed_capabilities import probe_file, probe_names
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import TaskSpec, load_models, load_tasks
from vlbench.catalog.task_files import check_data_sets, is_data_sets
from vlbench.commands import USAGE, Answer
from vlbench.commands.parser import add_trust
from vlbench.commands.streams import announce_torch
from vlbench.errors import SpecError, UnknownNameError, unknown

# The smallest similarity (difflib's ratio) at which one metric may be a misspelling of another.
ALIKE = 0.9

if TYPE_CHECKING:  # imports torch
    from vlbench.run.options import Options


def add_options(validate: argparse.ArgumentParser) -> None:
    """Add the options for the files."""
    validate.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    add_trust(validate)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the valid files, and the problems of the others."""
    problems = validate(arguments.paths, arguments.include_path, trust=arguments.trust)
    right = [
        f"{file}: ok{_doubt(file, arguments.include_path)}"
        for file, problem in problems.items()
        if not problem
    ]
    wrong = [problem for problem in problems.values() if problem]
    return Answer(right, wrong, USAGE if wrong else 0)


def validate(
    paths: Sequence[Path], include: Sequence[Path] = (), *, trust: bool = False
) -> dict[Path, str]:
    """Return the problems of every file below the paths; empty for a valid file.

    Imports what the files name, as far as it is trusted, but calls nothing, and loads neither
    weights nor data. `include` are further sources that the files may refer to. Raises
    UnknownNameError for a path that does not exist.
    """
    from vlbench.run.options import Options

    problems: dict[Path, str] = {}
    options = Options(include_path=include, trust=trust)
    # Cached for all files of a source, since each file is checked against all others.
    known_beside = cache(lambda source: read_catalog([*include, *_others(source)])[0])
    for path in paths:
        if not path.exists():
            raise UnknownNameError(f"no file or folder {path}")
        for file in _files(path):
            problems[file] = _problem(file.resolve(), known_beside, options)
    return problems


def _files(path: Path) -> list[Path]:
    """Return a YAML file, or those below a folder. Raises UnknownNameError if none exist."""
    if path.is_file():
        return [path]
    names = [
        Path(folder, name) for folder, _, names in os.walk(path, onerror=_refuse) for name in names
    ]
    files = sorted(name for name in names if name.suffix == ".yaml")
    other = sorted(name for name in names if name.suffix == ".yml")
    if not files and not other:
        raise UnknownNameError(f"{path}: contains no file that ends in .yaml")
    return [*files, *other]


def _refuse(error: OSError) -> None:
    raise UnknownNameError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _problem(file: Path, known_beside: Callable[[Path], Catalog], options: Options) -> str:
    if file.suffix == ".yml":
        return f"{file}: this file is not read; rename it {file.stem}.yaml"
    source = _source(file)
    problems: list[str] = []
    try:
        catalog = known_beside(source)
        if file.name == "models.yaml":
            models, renamed = split_renamed({one.name: one for one in load_models(file, source)})
            whole = Catalog({}, {**catalog.models, **models}, renamed)
            problems += renamed_problems(whole)
            _check_models(whole, list(models), options, problems)
        elif is_findings(file):
            _check_findings(file, source, catalog, options)
        elif is_data_sets(file):
            check_data_sets(file)
        else:
            _check_task(file, source, catalog, options)
    except (SpecError, UnknownNameError) as error:
        problems.append(str(error))
    return "\n".join(problems)


def _check_models(
    catalog: Catalog, names: Sequence[str], options: Options, problems: list[str]
) -> None:
    announce_torch("checking models against their adapters")
    from vlbench.run.model import resolve_model

    for name in names:
        try:
            if not catalog.models[name].unavailable:
                resolve_model(catalog, name, options)
        except (SpecError, UnknownNameError) as error:
            problems.append(str(error))


def _check_findings(file: Path, source: Path, catalog: Catalog, options: Options) -> None:
    for spec in load_findings(file, source):
        problems = task_problems(spec, catalog.tasks)
        if problems:
            raise SpecError("\n".join(problems))
        namesake = load_all_findings(catalog, options.include_path).get(spec.name)
        if namesake and namesake.file != file:
            raise SpecError(f"findings '{spec.name}' is in {namesake.file} and {file}")


def _check_task(file: Path, source: Path, catalog: Catalog, options: Options) -> None:
    for task in load_tasks(file, source):
        namesake = catalog.tasks.get(task.name)
        if namesake and namesake.file != file:
            raise SpecError(f"task '{task.name}' is in {namesake.file} and {file}")
        whole = Catalog({**catalog.tasks, task.name: task}, catalog.models, catalog.renamed)
        problems = group_problems(task, whole.tasks) + _probe_problems(task)
        problems += _reference_problems(task, whole)
        if problems:
            raise SpecError("\n".join(problems))
        if not task.group:
            announce_torch("checking tasks against their probes")
            from vlbench.run.figures import find_figures
            from vlbench.run.task import resolve_task

            resolve_task(whole, task.name, named=True, options=options)
            find_figures(task, options)


def _doubt(file: Path, include: Sequence[Path]) -> str:
    """Return a warning if a metric is nearly a metric of another task, or the beginning of it.

    What a probe measures is known only after a run, so this is not an error.
    """
    file = file.resolve()
    if file.name == "models.yaml" or is_findings(file) or is_data_sets(file):
        return ""
    source = _source(file)
    tasks = read_catalog([*include, *_others(source)])[0].tasks.values()
    metrics = {task.primary["metric"] for task in tasks if task.file != file}
    slips = [
        f"'{metric}'; did you mean '{near[0]}'?"
        for metric in {task.primary["metric"] for task in load_tasks(file, source)} - metrics
        if (near := get_close_matches(metric, metrics, 1, ALIKE) or _longer(metric, metrics))
    ]
    return f", but no other task has the metric {slips[0]}" if slips else ""


def _longer(beginning: str, names: Collection[str]) -> list[str]:
    return [name for name in sorted(names, key=len) if name.startswith(beginning)]


def _probe_problems(task: TaskSpec) -> list[str]:
    """Return a problem if a probe's plain name is in neither the source nor vlbench."""
    if not task.probe or {":", "."} & {*task.probe} or probe_file(task):
        return []
    return [f"{task.document.where('probe')}: {unknown('probe', task.probe, probe_names())}"]


def _reference_problems(task: TaskSpec, catalog: Catalog) -> list[str]:
    """Return each published number whose model no models.yaml lists (not even as unavailable)."""
    return [
        f"{task.document.where('reference', str(i), 'model')}: "
        f"{unknown('model', entry['model'], catalog.models)}"
        for i, entry in enumerate(task.reference)
        if entry["model"] not in catalog.models and not entry.get("recorded")
    ]


def _source(file: Path) -> Path:
    """Return a file's source: the folder above its tasks/ or model_adapters/, else its folder."""
    above = [p.parent for p in file.parents if p.name in {"tasks", "model_adapters"}]
    return above[0] if above else file.parent


def _others(source: Path) -> list[Path]:
    """Return a folder as a list if it is a source other than vlbench, else an empty list."""
    inside = any((source / part).is_dir() for part in ("tasks", "model_adapters"))
    return [source] if inside and source != shipped_source() else []
