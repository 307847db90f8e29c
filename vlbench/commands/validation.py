"""What `vlbench validate` finds wrong with task files and models.yaml files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlbench.catalog.catalog import Catalog, group_problems, read_catalog
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import load_models, load_task
from vlbench.errors import SpecError, UnknownNameError
from vlbench.planning.models import resolve_model
from vlbench.planning.options import Options
from vlbench.planning.tasks import resolve_task


def validate(
    paths: Sequence[Path], include: Sequence[Path] = (), *, trust: bool = False
) -> dict[Path, str]:
    """Return every file below the paths with what is wrong with it; empty where nothing is.

    Imports what the files name, as far as it is trusted, but calls none of it, and loads no weights
    and no data. `include` are further sources that the files may refer to. Raises UnknownNameError
    for a path that is not there.
    """
    found: dict[Path, str] = {}
    options = Options(include_path=include, trust=trust)
    for path in paths:
        if not path.exists():
            raise UnknownNameError(f"no file or folder {path}")
        files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
        found |= {file: _problem(file.resolve(), options) for file in files}
    return found


def _problem(file: Path, options: Options) -> str:
    source = _source(file)
    problems: list[str] = []
    try:
        known, _ = read_catalog([*options.include_path, *_others(source)])
        if file.name == "models.yaml":
            models = {spec.name: spec for spec in load_models(file, source)}
            catalog = Catalog({}, {**known.models, **models})
            _check_models(catalog, list(models), options, problems)
        else:
            _check_task(file, source, known, options)
    except (SpecError, UnknownNameError) as error:
        problems.append(str(error))
    return "\n".join(problems)


def _check_models(
    catalog: Catalog, names: Sequence[str], options: Options, problems: list[str]
) -> None:
    for name in names:
        try:
            if not catalog.models[name].unavailable:
                resolve_model(catalog, name, options)
        except (SpecError, UnknownNameError) as error:
            problems.append(str(error))


def _check_task(file: Path, source: Path, known: Catalog, options: Options) -> None:
    for task in load_task(file, source):
        namesake = known.tasks.get(task.name)
        if namesake and namesake.file != file:
            raise SpecError(f"task '{task.name}' is in {namesake.file} and {file}")
        catalog = Catalog({**known.tasks, task.name: task}, known.models)
        problems = group_problems(task, catalog.tasks)
        if problems:
            raise SpecError("\n".join(problems))
        if not task.group:
            resolve_task(catalog, task.name, named=True, options=options)


def _source(file: Path) -> Path:
    """Return the source that a file belongs to: the folder above its tasks/ or model_adapters/."""
    above = [p.parent for p in file.parents if p.name in {"tasks", "model_adapters"}]
    return above[0] if above else file.parent


def _others(source: Path) -> list[Path]:
    """Return the source, where it is one and not vlbench's own."""
    inside = any((source / part).is_dir() for part in ("tasks", "model_adapters"))
    return [source] if inside and source != shipped_source() else []
