"""Models resolved: their adapters found, their arguments checked, nothing loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlbench.capabilities import is_capability
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.errors import SpecError, UnknownNameError
from vlbench.planning.options import Options
from vlbench.resolve import check_arguments, find_object, hints, parameters

ADAPTER_FILLED = ("device", "dtype")


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

    def parts(self) -> Iterator[ModelPlan]:
        """Yield this model, and those that it is made from."""
        yield self
        for partner in self.partners.values():
            yield from partner.parts()

    def _placed(self, value: Any, key: str) -> Any:
        """Return a path of models.yaml, relative to that file, as a whole path."""
        if key in self.overrides or not isinstance(value, str | Path):
            return value
        beside = self.spec.file.parent / value
        written_as_path = isinstance(value, Path) or "/" in value
        return type(value)(beside) if written_as_path and beside.exists() else value


def plan_model(
    catalog: Catalog, model: Any, options: Options, *, above: tuple[str, ...] = ()
) -> ModelPlan:
    """Return a model with its adapter class found, and the models that it is made from.

    Raises SpecError and UnknownNameError.
    """
    if not isinstance(model, str):
        if isinstance(model, type) or options.model_args:
            raise UnknownNameError(
                f"{model!r}: give a model's name with its arguments, or an object made with them"
            )
        name = options.name or type(model).__name__
        spec = ModelSpec(name, Path(), Document(Path(name), {}, {}))
        return ModelPlan(name=name, spec=spec, adapter=type(model), overrides={}, instance=model)
    spec = _from_file(model) if re.search(r"\.py:\w+$", model) else catalog.model(model)
    if spec.unavailable:
        raise UnknownNameError(f"{spec.name} is unavailable: {spec.unavailable}")
    if spec.name in above:
        raise SpecError(f"{spec.document.where(spec.name)}: {spec.name} is made from itself")
    adapter = find_object(spec.document.where(spec.name), spec.adapter, spec.folders)
    wanted = hints(adapter)
    named = {**spec.params, **options.model_args}
    partners = {k: v for k, v in named.items() if v and is_capability(wanted.get(k))}
    above = (*above, spec.name)
    return ModelPlan(
        name=options.name or spec.name + _shown(options),
        spec=spec,
        adapter=adapter,
        overrides=options.model_args,
        partners={
            key: plan_model(catalog, name, Options(), above=above) for key, name in partners.items()
        },
    )


def _from_file(model: str) -> ModelSpec:
    """Return the line that `path/to/file.py:Class` stands for."""
    path, _, name = model.rpartition(":")
    file = Path(path).absolute()
    if not file.is_file():
        raise UnknownNameError(f"no file {path}")
    return ModelSpec(name, file.parent, Document(file, {}, {}), adapter=f"{file.stem}:{name}")


def _shown(options: Options) -> str:
    """Return `[k=v,...]` of what the user overrode, paths as file names."""
    usual = options.dtype == Options().dtype
    overrides = dict(options.model_args) | ({} if usual else {"dtype": options.dtype})
    pairs = [f"{key}={_word(value)}" for key, value in sorted(overrides.items())]
    return f"[{','.join(pairs)}]" if pairs else ""


def _word(value: Any) -> str:
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)
