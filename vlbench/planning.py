"""Tasks and models resolved: their functions found, their arguments checked, nothing loaded."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlbench.capabilities import alternatives, is_capability, lacking
from vlbench.catalog import Catalog
from vlbench.data.records import Data
from vlbench.errors import CannotDo, SpecError, UnknownNameError
from vlbench.options import DATA_VARIABLE, Options
from vlbench.resolve import Problem, check_arguments, convert, hints, load_object, parameters
from vlbench.specs import ModelSpec, TaskSpec
from vlbench.strict_yaml import Document

PROBE_FILLED = ("model", "data", "engine")
ADAPTER_FILLED = ("device", "dtype")


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """A task resolved: its probe, its arguments, its companions' names, and its data."""

    spec: TaskSpec
    named: bool
    probe: Callable[..., Any]
    loader: Callable[..., Data]
    loader_args: Mapping[str, Any]
    params: Mapping[str, Any]
    companions: Mapping[str, list[ModelPlan]]
    options: Options

    @property
    def primary(self) -> dict[str, Any]:
        """The score that stands for the task: its metric and conditions."""
        return {"metric": self.spec.primary["metric"], "at": self.spec.primary.get("at", {})}

    @property
    def fixed(self) -> dict[str, Any]:
        """What is the same for every model on this task, the data's content apart."""
        return {
            "task": self.spec.name,
            "version": self.spec.version,
            "probe": self.spec.probe,
            "params": self.spec.params,
            "model": self.spec.model,
            "primary": self.primary,
        }

    def takes_list(self, companion: str) -> bool:
        """Return whether the probe takes a list of models for this parameter."""
        options = alternatives(hints(self.probe)[companion])
        return any(typing.get_origin(option) is list for option in options)

    @property
    def regions(self) -> Mapping[str, Any]:
        """Where regions of each kind are; empty for a task without regions."""
        found: Mapping[str, Any] = self.spec.data.get("regions", {})
        return found

    def regions_for(self, model: ModelPlan) -> dict[str, Any]:
        """Return the loader's argument with the regions that a model reads.

        Raises CannotDo where the task has none of their kind.
        """
        kind = model.spec.regions.get("kind")
        if not self.regions:
            return {}
        if kind is not None and kind not in self.regions:
            known = ", ".join(self.regions)
            raise CannotDo(f"the model reads regions of kind {kind}; the task has {known}")
        given = self.options.expand(self.regions[kind]) if kind else None
        value = convert(given, hints(self.loader)["regions"])
        return {"regions": _beside(self.spec.file, value)}

    @property
    def needs(self) -> Any:
        """The capability that the probe asks of the model under test."""
        return hints(self.probe)["model"]


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """A model resolved: the name of its rows, its adapter class, and its arguments."""

    name: str
    spec: ModelSpec
    adapter: type
    overrides: Mapping[str, Any]
    partners: Mapping[str, ModelPlan] = field(default_factory=dict)
    instance: Any = None

    def params(self, task: TaskSpec | None = None) -> dict[str, Any]:
        """Return the adapter's arguments: its line's, then the task's, then the user's."""
        if self.instance is not None:
            return {}
        known = parameters(self.adapter)
        asked = {k: v for k, v in (task.model if task else {}).items() if k in known}
        given = {**self.spec.params, **asked, **self.overrides}
        arguments, problems = check_arguments(self.adapter, given, filled=ADAPTER_FILLED)
        if problems:
            where = self.spec.document.where(self.spec.name)
            lines = [f"{where}: {self.name}: {problem.message}" for problem in problems]
            raise SpecError("\n".join(lines))
        return {k: self._placed(v, k) for k, v in arguments.items()}

    def _placed(self, value: Any, key: str) -> Any:
        """Return a path of models.yaml, relative to that file, as a whole path."""
        if key in self.overrides or not isinstance(value, str | Path):
            return value
        beside = self.spec.file.parent / value
        written_as_path = isinstance(value, Path) or "/" in value
        return type(value)(beside) if written_as_path and beside.exists() else value


def plan_task(catalog: Catalog, name: str, named: bool, options: Options) -> TaskPlan:
    """Return a task with its functions found and its arguments checked. Raises SpecError."""
    spec = catalog.tasks[name]
    where = spec.document.where
    probe_name = spec.probe if ":" in spec.probe else f"{spec.probe}:{spec.probe}"
    probe = _found(where("probe"), probe_name, spec.folders, "vlbench.probes.")
    loader = _found(where("data", "loader"), spec.data["loader"], spec.folders)
    params, problems = _checked(where("probe"), probe, spec.params, PROBE_FILLED)
    lines = [f"{where('params', p.key)}: {p.message}" for p in problems]
    given = _data_arguments(spec, getattr(loader, "__name__", ""), options)
    regions = _region_parameter(spec, loader)
    loader_args, problems = _checked(where("data", "loader"), loader, given, regions)
    lines += [f"{where('data', p.key)}: {p.message}" for p in problems]
    companions = _companions(catalog, spec, probe, params, lines)
    if lines:
        raise SpecError("\n".join(lines))
    return TaskPlan(
        spec=spec,
        named=named,
        probe=probe,
        loader=loader,
        loader_args={k: _beside(spec.file, v) for k, v in loader_args.items()},
        params={k: v for k, v in params.items() if k not in companions},
        companions=companions,
        options=options,
    )


def plan_model(
    catalog: Catalog, model: Any, options: Options, *, above: tuple[str, ...] = ()
) -> ModelPlan:
    """Return a model with its adapter class found, and the models that it is made from.

    Raises SpecError and UnknownNameError.
    """
    if not isinstance(model, str):
        name = options.name or type(model).__name__
        spec = ModelSpec(name, Path(), Document(Path(name), {}, {}))
        return ModelPlan(name=name, spec=spec, adapter=type(model), overrides={}, instance=model)
    spec = _from_file(model) if re.search(r"\.py:\w+$", model) else catalog.model(model)
    if spec.unavailable:
        raise UnknownNameError(f"{spec.name} is unavailable: {spec.unavailable}")
    if spec.name in above:
        raise SpecError(f"{spec.document.where(spec.name)}: {spec.name} is made from itself")
    adapter = _found(spec.document.where(spec.name), spec.adapter, spec.folders)
    wanted = hints(adapter)
    named = {**spec.params, **options.model_args}
    partners = {k: v for k, v in named.items() if v and is_capability(wanted.get(k))}
    above = (*above, spec.name)
    return ModelPlan(
        name=options.name or spec.name + _shown(options.model_args),
        spec=spec,
        adapter=adapter,
        overrides=options.model_args,
        partners={
            key: plan_model(catalog, name, Options(), above=above) for key, name in partners.items()
        },
    )


def _found(where: str, name: str, folders: Sequence[Path], package: str = "") -> Any:
    """Return what a file names: from its own source, or else from `package`."""
    module = name.partition(":")[0]
    beside = any((folder / f"{module}.py").is_file() for folder in folders)
    try:
        return load_object(name if beside or "." in module else package + name, folders)
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from error


def _checked(
    where: str, function: Any, given: Mapping[str, Any], filled: Sequence[str]
) -> tuple[dict[str, Any], list[Problem]]:
    try:
        return check_arguments(function, given, filled=filled)
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from error


def _companions(
    catalog: Catalog, spec: TaskSpec, probe: Any, params: Mapping[str, Any], lines: list[str]
) -> dict[str, list[ModelPlan]]:
    """Return the models that a task names beside the one under test; notes every problem."""
    found: dict[str, list[ModelPlan]] = {}
    for key, names in params.items():
        wanted = hints(probe)[key]
        for name in _names(names) if is_capability(wanted) else []:
            try:
                partner = plan_model(catalog, name, Options())
            except UnknownNameError as error:
                lines.append(f"{spec.document.where('params', key)}: {error}")
                continue
            gap = lacking(partner.adapter, wanted, partner.spec.without)
            lines += [f"{spec.document.where('params', key)}: {name} has no {gap}"] if gap else []
            found.setdefault(key, []).append(partner)
    return found


def _names(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


def _data_arguments(spec: TaskSpec, loader: str, options: Options) -> dict[str, Any]:
    """Return the loader's arguments of a file, told where this machine keeps the data."""
    given = {k: v for k, v in spec.data.items() if k not in {"loader", "regions"}}
    root = options.data_dir.get(spec.name, options.data_dir.get(loader))
    if root is not None:
        given["root"] = str(root.absolute())
    return {k: options.expand(v) for k, v in given.items()}


def _region_parameter(spec: TaskSpec, loader: Callable[..., Any]) -> tuple[str, ...]:
    """Return the loader's parameter that the plan fills, model by model, from `regions`."""
    if "regions" not in spec.data:
        return ()
    if "regions" not in parameters(loader):
        where = spec.document.where("data", "regions")
        raise SpecError(f"{where}: {spec.data['loader']} takes no regions")
    return ("regions",)


def _beside(file: Path, value: Any) -> Any:
    """Return a relative path as lying beside the file that names it."""
    unexpanded = isinstance(value, Path) and value.parts[:1] == (DATA_VARIABLE,)
    return file.parent / value if isinstance(value, Path) and not unexpanded else value


def _from_file(model: str) -> ModelSpec:
    """Return the line that `path/to/file.py:Class` stands for."""
    path, _, name = model.rpartition(":")
    file = Path(path).absolute()
    if not file.is_file():
        raise UnknownNameError(f"no file {path}")
    return ModelSpec(name, file.parent, Document(file, {}, {}), adapter=f"{file.stem}:{name}")


def _shown(overrides: Mapping[str, Any]) -> str:
    """Return `[k=v,...]` of what the user overrode, paths as file names."""
    pairs = [f"{key}={_word(value)}" for key, value in sorted(overrides.items())]
    return f"[{','.join(pairs)}]" if pairs else ""


def _word(value: Any) -> str:
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)
