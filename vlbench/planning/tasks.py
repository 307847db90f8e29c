"""Tasks resolved: their functions found, their arguments checked, nothing loaded."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vlbench.probes
from vlbench.capabilities import alternatives, is_capability, lacking
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.data.records import Data
from vlbench.errors import CannotDo, SpecError, UnknownNameError
from vlbench.planning.models import ModelPlan, plan_model
from vlbench.planning.options import DATA_VARIABLE, Options
from vlbench.resolve import blamed_on, check_arguments, convert, find_object, hints, parameters

PROBE_FILLED = ("model", "data", "engine")

# The families of shipped probes, one folder each.
PROBES = Path(vlbench.probes.__file__).parent


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


def plan_task(catalog: Catalog, name: str, named: bool, options: Options) -> TaskPlan:
    """Return a task with its functions found and its arguments checked. Raises SpecError."""
    spec = catalog.tasks[name]
    where = spec.document.where
    probe_name = spec.probe if ":" in spec.probe else f"{spec.probe}:{spec.probe}"
    probe = find_object(where("probe"), probe_name, spec.folders, _family(probe_name))
    loader = find_object(where("data", "loader"), spec.data["loader"], spec.folders)
    with blamed_on(where("probe")):
        lacking_names = [name for name in PROBE_FILLED if name not in parameters(probe)]
        if lacking_names:
            raise SpecError(f"a probe takes model, data, engine; this lacks {lacking_names}")
        params, problems = check_arguments(probe, spec.params, filled=PROBE_FILLED)
    lines = [f"{where('params', p.key)}: {p.message}" for p in problems]
    given = _data_arguments(spec, getattr(loader, "__name__", ""), options)
    regions = _region_parameter(spec, loader)
    with blamed_on(where("data", "loader")):
        loader_args, problems = check_arguments(loader, given, filled=regions)
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


def _family(probe: str) -> str:
    """Return the package of the shipped probe with this name, for a name without a module."""
    module = probe.partition(":")[0]
    found = [file.parent.name for file in PROBES.glob(f"*/{module}.py")]
    return f"vlbench.probes.{found[0]}." if found else "vlbench.probes."


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
