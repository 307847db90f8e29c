"""Tasks resolved: their functions found and their arguments checked, nothing loaded."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vlbench.probes
from vlbench.capabilities import alternatives, is_capability
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.gaps import lacking
from vlbench.catalog.specs import TaskSpec
from vlbench.data.records import Data
from vlbench.engine.fingerprints import contents
from vlbench.errors import SpecError, UnknownNameError, unknown
from vlbench.metrics.text.evaluated import PREFIX
from vlbench.planning.models import Model, find_object, require_own_file, resolve_model
from vlbench.planning.options import DATA_VARIABLE, Options
from vlbench.resolve import (
    Problem,
    blamed_on,
    check_arguments,
    convert,
    hints,
    is_record,
    parameters,
)


def loader_names(loader: str) -> tuple[str, str, str]:
    """Return the names that --data-dir takes for a loader of a task's file, the longest first.

    `vlbench.data.hub:images` is also `hub:images`, and `images`.
    """
    module, _, function = loader.partition(":")
    return loader, f"{module.rpartition('.')[2]}:{function}", function


def require_known(names: Iterable[str], loaders: Mapping[str, str]) -> None:
    """Raise UnknownNameError for a name of --data-dir that no task and no loader has, or several.

    `loaders` are those of the tasks, by the task's name.
    """
    used = sorted(set(loaders.values()))
    known = {*loaders, *(name for loader in used for name in loader_names(loader))}
    for name in filter(None, names):
        if name not in known:
            why = unknown("selected task, or loader of one,", name, known)
            wanted = "wants the name of a task that is to run, or of its loader, not a tag"
            raise UnknownNameError(f"--data-dir NAME=DIR {wanted}: {why}")
        meant = [loader for loader in used if name in loader_names(loader)]
        if len(meant) > 1:
            short = [loader_names(loader)[1] for loader in meant]
            choices = short if len(set(short)) == len(short) else meant
            raise UnknownNameError(
                f"--data-dir {name}=DIR: loaders of that name are {', '.join(choices)}; "
                "give one of them, or a task's name"
            )


def beside(file: Path, value: Any) -> Any:
    """Return a value whose relative paths lie beside the file that names them.

    A path that starts with the variable of the data's folder stays as it is.
    """
    if isinstance(value, Path):
        return value if value.parts[:1] == (DATA_VARIABLE,) else file.parent / value
    script = _script(value)
    if script:
        return f"{PREFIX}{beside(file, script)}"
    if is_record(type(value)):
        moved = {name: beside(file, part) for name, part in _fields(value).items()}
        return type(value)(**moved)
    return [beside(file, part) for part in value] if isinstance(value, list) else value


def paths_in(value: Any, key: str) -> Iterator[tuple[str, Path]]:
    """Yield the paths in a value under their dotted keys: `captioner.weights`."""
    script = _script(value)
    if isinstance(value, Path):
        yield key, value
    elif script:
        yield key, script
    elif is_record(type(value)):
        for name, part in _fields(value).items():
            yield from paths_in(part, f"{key}.{name}")
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from paths_in(part, f"{key}.{i}")


def metrics_of_others(value: Any) -> list[str]:
    """Return the metrics of the package `evaluate` in a value: code that is not vlbench's."""
    return [text for text in texts_in(value) if text.startswith(PREFIX)]


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a value, however deep in lists and records."""
    if isinstance(value, str):
        yield value
    elif is_record(type(value)) or isinstance(value, list | tuple):
        for part in _fields(value).values() if is_record(type(value)) else value:
            yield from texts_in(part)


def _script(value: Any) -> Path | None:
    """Return the path of a metric of `evaluate` that is a script."""
    named = isinstance(value, str) and value.startswith(PREFIX) and value.endswith(".py")
    return Path(value.removeprefix(PREFIX)) if named else None


def _fields(record: Any) -> dict[str, Any]:
    names = (
        [one.name for one in dataclasses.fields(record)]
        if dataclasses.is_dataclass(record)
        else record._fields
    )
    return {name: getattr(record, name) for name in names}


# What vlbench itself gives a probe, and a loader that has such parameters.
PROBE_FILLED = ("model", "data", "engine")
LOADER_FILLED = ("download", "cache_dir", "wanted_splits")

# The families of shipped probes, one folder each.
FAMILIES = Path(vlbench.probes.__file__).parent


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task resolved: its probe and loader with their arguments, and its companions.

    `named` is True where the user named the task, and False where a tag or a glob selected it.
    `regions` are the loader's argument for each kind of regions that the task has.
    """

    spec: TaskSpec
    named: bool
    probe: Callable[..., Any]
    arguments: Mapping[str, Any]
    companions: Mapping[str, Sequence[Model]]
    loader: Callable[..., Data]
    loader_arguments: Mapping[str, Any]
    regions: Mapping[str, Any]

    @property
    def needs(self) -> Any:
        """The capability that the probe asks of the model under test."""
        return hints(self.probe)["model"]

    @property
    def files(self) -> dict[str, Path]:
        """The files and folders that the probe's arguments name, by their keys."""
        return dict(
            pair for name, value in self.arguments.items() for pair in paths_in(value, name)
        )

    @property
    def words(self) -> list[str]:
        """The texts among the probe's arguments, its defaults among them."""
        defaults = {name: one.default for name, one in parameters(self.probe).items()}
        return [*texts_in([*{**defaults, **self.arguments}.values()])]

    @property
    def fixed(self) -> dict[str, Any]:
        """What is the same for every model on this task, the data's content apart."""
        # A file counts by its content; a task without any keeps the digest it always had.
        files = {"files": contents(self.files)} if self.files else {}
        return files | {
            "task": self.spec.name,
            "version": self.spec.version,
            "probe": self.spec.probe,
            "params": self.spec.params,
            "model": self.spec.model,
            "primary": self.spec.primary_score,
        }

    def as_annotated(self, companion: str, adapters: Sequence[Any]) -> Any:
        """Return the adapters of a companion as the probe takes them: one, or a list."""
        options = alternatives(hints(self.probe)[companion])
        several = any(typing.get_origin(option) is list for option in options)
        return list(adapters) if several else adapters[0]


def resolve_task(catalog: Catalog, name: str, named: bool, options: Options) -> Task:
    """Return a task with its functions found and its arguments checked.

    Raises SpecError with every problem of the task.
    """
    spec = catalog.tasks[name]
    probe, loader = _find_probe(spec, options), _find_loader(spec, options)
    lines: list[str] = []
    with blamed_on(spec.document.where("probe")):
        given = options.expand(spec.params)
        arguments, problems = check_arguments(probe, given, filled=PROBE_FILLED)
    lines += _problem_lines(spec, "params", problems)
    foreign = [one for value in arguments.values() for one in metrics_of_others(value)]
    if foreign and not options.trust:
        where = spec.document.where("params")
        lines.append(f"{where}: {', '.join(foreign)} runs code of others; allow it with --trust")
    others = _named_models(spec, hints(probe), arguments)
    for _, where, model in [] if options.trust else others:
        require_own_file(where, model, spec.source)
    companions = _companions(catalog, others, hints(probe), options, lines)
    with blamed_on(spec.document.where("data", "loader")):
        data, problems = _check_data(spec, loader, options)
        if "wanted_splits" in parameters(loader):
            data |= {"wanted_splits": _splits_read(probe)}
    lines += _problem_lines(spec, "data", problems)
    regions = _check_regions(spec, loader, options, lines)
    if lines:
        raise SpecError("\n".join(lines))
    return Task(
        spec=spec,
        named=named,
        probe=probe,
        arguments={
            key: beside(spec.document.file_of("params", key), value)
            for key, value in arguments.items()
            if key not in companions
        },
        companions=companions,
        loader=loader,
        loader_arguments=data,
        regions=regions,
    )


def _find_probe(spec: TaskSpec, options: Options) -> Callable[..., Any]:
    """Return the probe: of the task's own source, of a shipped family, or of a module named."""
    where, name = spec.document.where("probe"), spec.probe
    name = name if ":" in name else f"{name}:{name}"
    probe = find_object(
        where, name, spec.folders, package=family_package(spec), trusted=options.trusted
    )
    with blamed_on(where):
        lacking_names = [filled for filled in PROBE_FILLED if filled not in parameters(probe)]
        if lacking_names:
            raise SpecError(f"a probe takes model, data, engine; this lacks {lacking_names}")
    return probe  # type: ignore[no-any-return]


def family_package(spec: TaskSpec) -> str:
    """Return the package of the shipped family that has a task's probe, if any."""
    module = spec.probe.partition(":")[0]
    family = next((file.parent.name for file in FAMILIES.glob(f"*/{module}.py")), "")
    return f"{vlbench.probes.__name__}.{family}." if family else f"{vlbench.probes.__name__}."


def _find_loader(spec: TaskSpec, options: Options) -> Callable[..., Data]:
    """Return the loader.

    Raises SpecError for what is no loader by its annotation, since a plan calls it, and where the
    task has regions and the loader takes none.
    """
    where = spec.document.where("data", "loader")
    loader = find_object(where, spec.data["loader"], spec.folders, trusted=options.trusted)
    with blamed_on(where):
        returned = loader if isinstance(loader, type) else hints(loader).get("return", Data)
        if returned not in (Data, Any):
            raise SpecError(f"a loader returns Data; {spec.data['loader']} returns {returned!r}")
        takes_regions = "regions" in parameters(loader)
    if "regions" in spec.data and not takes_regions:
        where = spec.document.where("data", "regions")
        raise SpecError(f"{where}: {spec.data['loader']} takes no regions")
    return loader  # type: ignore[no-any-return]


def _check_data(
    spec: TaskSpec, loader: Callable[..., Data], options: Options
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the loader's arguments, with this machine's data folders filled in, and problems."""
    given = {k: v for k, v in spec.data.items() if k not in {"loader", "regions"}}
    names = (spec.name, *loader_names(spec.data["loader"]))
    root = next((options.data_dir[name] for name in names if name in options.data_dir), None)
    if root is not None:
        given["root"] = str(root.absolute())
    # Regions are filled in model by model, where the task has some.
    filled = (*LOADER_FILLED, *(["regions"] if "regions" in spec.data else []))
    arguments, problems = check_arguments(
        loader, {k: options.expand(v) for k, v in given.items()}, filled=filled
    )
    known = parameters(loader)
    # Paths in a task's file are relative to it; a run's own are relative to where it was started.
    file_of = spec.document.file_of
    arguments = {key: beside(file_of("data", key), value) for key, value in arguments.items()}
    cache = options.cache_dir and options.cache_dir.absolute()
    from_run = {"download": options.download or None, "cache_dir": cache}
    arguments |= {k: v for k, v in from_run.items() if k in known and v is not None}
    return arguments, problems


def _splits_read(probe: Callable[..., Any]) -> list[str]:
    """Return the splits that the annotation of a probe's data names; none: it may read all."""
    named = getattr(hints(probe, extras=True)["data"], "__metadata__", ())
    return [split for split in named if isinstance(split, str)]


def _check_regions(
    spec: TaskSpec, loader: Callable[..., Data], options: Options, lines: list[str]
) -> dict[str, Any]:
    """Return the loader's argument for each kind of regions; notes every problem."""
    found = {}
    for kind, given in spec.data.get("regions", {}).items():
        try:
            value = convert(options.expand(given), hints(loader)["regions"])
        except TypeError as error:
            lines.append(f"{spec.document.where('data', 'regions', str(kind))}: '{kind}' {error}")
            continue
        found[kind] = beside(spec.document.file_of("data", "regions", str(kind)), value)
    return found


def _named_models(
    spec: TaskSpec, annotations: Mapping[str, Any], arguments: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Return key, file:line and name of each model that a task names beside the one under test."""
    return [
        (key, spec.document.where("params", key), name)
        for key, names in arguments.items()
        if is_capability(annotations[key])
        for name in _names(names)
    ]


def _companions(
    catalog: Catalog,
    named: Sequence[tuple[str, str, str]],
    annotations: Mapping[str, Any],
    options: Options,
    lines: list[str],
) -> dict[str, list[Model]]:
    """Return the models that are named, by key; notes every problem."""
    found: dict[str, list[Model]] = {}
    for key, where, name in named:
        try:
            companion = resolve_model(catalog, name, options.of_companion)
        except UnknownNameError as error:
            lines.append(f"{where}: {error}")
            continue
        gap = lacking(companion.adapter, annotations[key], companion.spec.without)
        lines += [f"{where}: {name} has no {gap}"] if gap else []
        found.setdefault(key, []).append(companion)
    return found


def _names(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value] if value else []


def _problem_lines(spec: TaskSpec, part: str, problems: Sequence[Problem]) -> list[str]:
    """Return problems with the line of the task's file that each is about."""
    where = spec.document.where
    return [f"{where(part, *problem.key.split('.'))}: {problem.message}" for problem in problems]
