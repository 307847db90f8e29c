"""Tasks resolved: their functions found and their arguments checked; nothing is loaded."""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import GenericAlias
from typing import Any

from vlbench.capabilities import element, parts
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.listed_capabilities import shipped_probes
from vlbench.catalog.specs import TaskSpec
from vlbench.code.fingerprints import contents
from vlbench.code.functions import find_object, require_own_file
from vlbench.data.records import Data
from vlbench.errors import SpecError, UnknownNameError, unknown
from vlbench.metrics.evaluated import PREFIX
from vlbench.run.model import Model, fit, resolve_model
from vlbench.run.options import DATA_VARIABLE, Options
from vlbench.schema import (
    Misfit,
    ModelName,
    alternatives,
    blamed_on,
    hints,
    leaves,
    map_leaves,
    parameters,
    read,
    read_arguments,
)

# Arguments that vlbench gives a probe besides models, and a loader that has such parameters.
PROBE_FILLED = ("data", "engine")
LOADER_FILLED = ("download", "cache_dir", "wanted_splits", "pixels", "recording")

# The loader of a user's questions, whose table `--questions` names.
QUESTIONS = "vlbench.data.table:questions"


def model_parameter(probe: Callable[..., Any], under_test: str = "") -> str:
    """Return the parameter that the model under test fills: the first unless a task names it."""
    return under_test or next(iter(parameters(probe)), "")


@contextmanager
def note_problems(lines: list[str], where: Callable[..., str]) -> Iterator[None]:
    """Record what does not fit its schema, each problem with file and line, and continue."""
    try:
        yield
    except Misfit as error:
        lines += error.lines(where)


def loader_names(loader: str) -> tuple[str, str, str]:
    """Return the names that --data-dir accepts for a task's loader, the longest first.

    `vlbench.data.hub:images` may also be written `hub:images` and `images`.
    """
    module, _, function = loader.partition(":")
    return loader, f"{module.rpartition('.')[2]}:{function}", function


def require_known(names: Iterable[str], loaders: Mapping[str, str]) -> None:
    """Raise UnknownNameError for a --data-dir name of no task or loader, or several loaders.

    `loaders` are the loaders of the tasks, by the task's name.
    """
    used = sorted(set(loaders.values()))
    targets = {*loaders, *(name for loader in used for name in loader_names(loader))}
    for name in filter(None, names):
        if name not in targets:
            why = unknown("selected task, or loader of one,", name, targets)
            rule = "must be the name of a selected task or of its loader, not a tag"
            raise UnknownNameError(f"--data-dir NAME=DIR {rule}: {why}")
        meant = [loader for loader in used if name in loader_names(loader)]
        if len(meant) > 1:
            short = [loader_names(loader)[1] for loader in meant]
            choices = short if len(set(short)) == len(short) else meant
            raise UnknownNameError(
                f"--data-dir {name}=DIR: loaders of that name are {', '.join(choices)}; "
                "give one of them, or a task's name"
            )


def require_read(catalog: Catalog, tasks: Sequence[str], options: Options) -> None:
    """Raise UnknownNameError for own data that none of the tasks reads.

    They are images, questions, and the folders of `data_dir`. If there are questions, the images
    belong to them.
    """
    loaders = {name: catalog.tasks[name].data["loader"] for name in catalog.task_names(tasks)}
    if options.questions is None:
        catalog.require_images(options.images, tasks)
    elif QUESTIONS not in loaders.values():
        raise UnknownNameError("--questions: none of the tasks reads them, as questions_table does")
    elif not options.questions.is_file():
        raise UnknownNameError(f"--questions: there is no file {options.questions}")
    elif options.images and not options.images.is_dir():
        raise UnknownNameError(f"--images: there is no folder {options.images}")
    require_known(options.data_dir, loaders)


def resolve_paths(file: Path, value: Any, name: str = "", unchanged: Collection[str] = ()) -> Any:
    """Return a value whose relative paths are relative to the folder of the file that names them.

    A path that starts with the variable of the data's folder stays as it is, and so do `unchanged`
    leaves, by their names as in `leaves`.
    """

    def place(key: str, leaf: Any) -> Any:
        if key in unchanged:
            return leaf
        if script := _script(leaf):
            return f"{PREFIX}{place('', script)}"
        is_own = isinstance(leaf, Path) and leaf.parts[:1] != (DATA_VARIABLE,)
        return file.parent / leaf if is_own else leaf

    return map_leaves(value, place, name)


def paths_in(value: Any, key: str) -> Iterator[tuple[str, Path]]:
    """Yield the paths in a value under their dotted keys, such as `captioner.weights`."""
    for name, part in leaves(value, key):
        if path := part if isinstance(part, Path) else _script(part):
            yield name, path


def metrics_of_others(value: Any) -> list[str]:
    """Return the metrics of the package `evaluate` in a value, which run foreign code."""
    return [text for text in texts_in(value) if text.startswith(PREFIX)]


def texts_in(value: Any) -> Iterator[str]:
    """Yield the strings in a value, at any depth of lists and records."""
    return (part for _, part in leaves(value) if isinstance(part, str))


def _script(value: Any) -> Path | None:
    """Return the path of a metric of `evaluate` that is a script."""
    is_script = isinstance(value, str) and value.startswith(PREFIX) and value.endswith(".py")
    return Path(value.removeprefix(PREFIX)) if is_script else None


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task resolved: its probe and loader with their arguments, and its companions.

    `named` is True if the user named the task, and False if a tag or a glob selected it. `regions`
    are the loader's argument for each kind of regions that the task has. `given` are the parameters
    of the run that differ from those in the task's file.
    """

    spec: TaskSpec
    named: bool
    probe: Callable[..., Any]
    arguments: Mapping[str, Any]
    companions: Mapping[str, Sequence[Model]]
    loader: Callable[..., Data]
    loader_arguments: Mapping[str, Any]
    regions: Mapping[str, Any]
    given: Mapping[str, Any]

    @property
    def under_test(self) -> str:
        """The probe's parameter that the model under test fills."""
        return model_parameter(self.probe, self.spec.under_test)

    @property
    def all_companions(self) -> list[Model]:
        """The companions of all parameters."""
        return [companion for group in self.companions.values() for companion in group]

    @property
    def needs(self) -> Any:
        """The capability that the probe needs of the model under test."""
        return hints(self.probe)[self.under_test]

    @property
    def files(self) -> dict[str, Path]:
        """The files and folders that the probe's arguments or defaults name, by their keys."""
        values = {**self._defaults, **self.arguments}
        return dict(pair for name, value in values.items() for pair in paths_in(value, name))

    @property
    def words(self) -> list[str]:
        """The strings among the probe's arguments, including its defaults."""
        return [*texts_in([*{**self._defaults, **self.arguments}.values()])]

    @property
    def _defaults(self) -> dict[str, Any]:
        return {name: parameter.default for name, parameter in parameters(self.probe).items()}

    @property
    def fixed(self) -> dict[str, Any]:
        """What is the same for every model on this task, except the content of the data."""
        # Files are added by content; a task with neither must keep the digest that it always had.
        files = {"files": contents(self.files)} if self.files else {}
        slot = {"under_test": self.spec.under_test} if self.spec.under_test else {}
        return (
            files
            | slot
            | {
                "task": self.spec.name,
                "version": self.spec.version,
                "probe": self.spec.probe,
                "params": self.spec.params,
                "model": self.spec.model,
                "primary": self.spec.primary_score,
            }
        )

    def as_annotated(self, name: str, adapters: Sequence[Any]) -> Any:
        """Return the adapters of a parameter as the probe takes them: an adapter or a list."""
        options = alternatives(hints(self.probe)[name])
        takes_list = any(typing.get_origin(option) is list for option in options)
        return list(adapters) if takes_list else adapters[0]


def resolve_task(catalog: Catalog, name: str, named: bool, options: Options) -> Task:
    """Return a task with its functions found and its arguments checked.

    Raises SpecError with every problem of the task.
    """
    written, lines = catalog.tasks[name], list[str]()
    spec = _with_params(written, options.params)
    probe, loader = _find_probe(spec, options), _find_loader(spec, options)
    arguments = _read_params(spec, probe, options, lines)
    lines += [] if lines else _primary_problems(spec, probe, arguments, options.params)
    loader_arguments = _read_data(spec, loader, options, lines)
    regions = _read_regions(spec, loader, options, lines) if "regions" in spec.data else {}
    companions = _find_companions(catalog, spec, probe, arguments, options, lines)
    if lines:
        raise SpecError("\n".join(lines))
    if "wanted_splits" in parameters(loader):
        splits = splits_read(probe, arguments)
        loader_arguments["wanted_splits"] = [] if ... in splits else splits
    return Task(
        spec=spec,
        named=named,
        probe=probe,
        arguments={key: value for key, value in arguments.items() if key not in companions},
        companions=companions,
        loader=loader,
        loader_arguments=loader_arguments,
        regions=regions,
        given={
            key: spec.params[key]
            for key in options.params
            if spec.params[key] != written.params.get(key)
        },
    )


def _with_params(spec: TaskSpec, params: Mapping[str, Any]) -> TaskSpec:
    """Return a task with the parameters of the run in place of its own; mappings are merged."""
    return replace(spec, params=_merged(spec.params, params)) if params else spec


def _merged(defaults: Any, given: Any) -> Any:
    """Return a mapping with the given values in place of the defaults, at every depth.

    An empty mapping leaves nothing of the defaults.
    """
    if not (isinstance(defaults, Mapping) and isinstance(given, Mapping) and given):
        return given
    return {**defaults, **{key: _merged(defaults.get(key), part) for key, part in given.items()}}


def _find_probe(spec: TaskSpec, options: Options) -> Callable[..., Any]:
    """Return the probe: from the task's source, a shipped family, or a named module."""
    where, name = partial(spec.document.where, "probe"), spec.probe
    module, colon, function = name.partition(":")
    file = shipped_probes().get(module + colon)
    name = name if colon else f"{module}:{module}"
    place = f"{file.parent.name}.{file.stem}:{function or module}" if file else name
    shipped = f"vlbench.probes.{place}"
    return find_object(  # type: ignore[no-any-return]
        where, name, spec.folders, shipped=shipped, trusted=options.trusted
    )


def _find_loader(spec: TaskSpec, options: Options) -> Callable[..., Data]:
    where = partial(spec.document.where, "data", "loader")
    return find_object(  # type: ignore[no-any-return]
        where, spec.data["loader"], spec.folders, trusted=options.trusted
    )


def _read_params(
    spec: TaskSpec, probe: Callable[..., Any], options: Options, lines: list[str]
) -> dict[str, Any]:
    """Return the probe's arguments; add every problem. Raises SpecError if it is no probe."""

    def where(*key: str | int) -> str:
        typed = key[:1] == ("params",) and key[1:2] and key[1] in options.params
        words = f"--param {'.'.join(map(str, key[1:]))} of {spec.name}"
        return words if typed else spec.document.where(*key)

    arguments: dict[str, Any] = {}
    with blamed_on(where, "probe"):
        if not {*PROBE_FILLED} < {*parameters(probe)} or model_parameter(probe) in PROBE_FILLED:
            names = ", ".join(parameters(probe)) or "nothing"
            raise SpecError(f"a probe must take model, data, engine; this probe takes {names}")
    under_test = model_parameter(probe, spec.under_test)
    if spec.under_test and not _takes_models(hints(probe).get(under_test)):
        slots = [name for name, kind in hints(probe).items() if _takes_models(kind)]
        allowed = f"a parameter of the probe that takes a model: {', '.join(slots) or 'none'}"
        raise SpecError(
            f"{where('under_test')}: 'under_test' must be {allowed}; not '{under_test}'"
        )
    if under_test in spec.params:
        raise SpecError(
            f"{where('params', under_test)}: 'params' cannot have '{under_test}': the model under "
            "test fills it, unless 'under_test' names another parameter"
        )
    with blamed_on(where, "probe"), note_problems(lines, partial(where, "params")):
        filled = (under_test, *PROBE_FILLED)
        arguments = read_arguments(probe, _expand(spec.params, options), filled)
    # A path of the command line is relative to where the run starts.
    written = {name: str(leaf) for name, leaf in leaves(spec.document.values.get("params", {}))}
    given = {name for name, leaf in leaves(options.params) if written.get(name) != str(leaf)}
    arguments = {
        key: _resolve(spec, value, "params", key, unchanged=given)
        for key, value in arguments.items()
    }
    metrics = [metric for value in arguments.values() for metric in metrics_of_others(value)]
    foreign = [metric for metric in metrics if not _is_own_script(metric, spec)]
    if foreign and not options.trust:
        code = "runs other people's code; allow it with --trust"
        lines.append(f"{where('params')}: {', '.join(foreign)} {code}")
    return arguments


def _takes_models(annotation: Any) -> bool:
    return any(parts(element(alternative)) for alternative in alternatives(annotation))


def _primary_problems(
    spec: TaskSpec,
    probe: Callable[..., Any],
    arguments: Mapping[str, Any],
    params: Mapping[str, Any],
) -> list[str]:
    """Return a problem for each number in the primary's conditions not in the probe's list."""
    lists: dict[str, list[Any]] = {}
    defaults = {name: parameter.default for name, parameter in parameters(probe).items()}
    for name, value in leaves({**defaults, **arguments}):
        key, _, place = name.rpartition(".")
        if place.isdigit():
            lists.setdefault(key.rpartition(".")[2], []).append(value)
    document = spec.document
    # A task that inherits `primary` must have its conditions among its parameters.
    is_own = ("primary",) in document.lines
    return [
        f"--param {key} of {spec.name} must have {value}, at which the primary score is"
        if key in params
        else f"{document.where('primary', 'at', key) if is_own else document.where('params', key)}:"
        f" 'primary.at.{key}' must be one of {', '.join(map(str, lists[key]))}, not {value}"
        for key, value in spec.primary.get("at", {}).items()
        if key in lists and not isinstance(value, str) and value not in lists[key]
    ]


def _is_own_script(metric: str, spec: TaskSpec) -> bool:
    """Return whether a metric of `evaluate` is a script below the tasks/ of the task's source.

    It is as trusted as a probe there.
    """
    script, tasks = _script(metric), (spec.source / "tasks").resolve()
    return script is not None and script.resolve().is_relative_to(tasks)


def _read_data(
    spec: TaskSpec, loader: Callable[..., Data], options: Options, lines: list[str]
) -> dict[str, Any]:
    """Return the loader's arguments, with this machine's data folders filled in.

    Adds every problem. Raises SpecError if the annotation shows that it is no loader, since a plan
    calls it, and if the task has regions but the loader takes none.
    """
    where = spec.document.where
    values = {k: v for k, v in spec.data.items() if k not in {"loader", "regions"}}
    names = (spec.name, *loader_names(spec.data["loader"]))
    root = next((options.data_dir[name] for name in names if name in options.data_dir), None)
    if options.questions and spec.data["loader"] == QUESTIONS:
        values["test"] = str(options.questions.absolute())
        root = root or options.images or options.questions.parent
    elif options.images and not options.questions and spec.is_on_images:
        if root is not None:
            raise UnknownNameError(
                f"{spec.name}: two folders of images, {options.images} by --images and {root} by "
                "--data-dir; give one of them"
            )
        root = options.images
    if root is not None:
        values["root"] = str(root.absolute())
    # If the task has regions, they are filled in for each model.
    filled = (*LOADER_FILLED, *(["regions"] if "regions" in spec.data else []))
    arguments: dict[str, Any] = {}
    with blamed_on(where, "data", "loader"):
        with note_problems(lines, partial(where, "data")):
            arguments = read_arguments(loader, _expand(values, options), filled)
        signature = parameters(loader)
        returned = loader if isinstance(loader, type) else hints(loader).get("return", Data)
        if returned not in (Data, Any):
            raise SpecError(
                f"a loader must return Data; {spec.data['loader']} returns {returned!r}"
            )
    if "regions" in spec.data and "regions" not in signature:
        raise SpecError(f"{where('data', 'regions')}: {spec.data['loader']} takes no regions")
    # Paths in a task's file are relative to the file; paths of a run are relative to its start.
    arguments = {key: _resolve(spec, value, "data", key) for key, value in arguments.items()}
    cache = options.cache_dir and options.cache_dir.absolute()
    from_run: dict[str, Any] = {"download": options.download or None, "cache_dir": cache}
    return arguments | {k: v for k, v in from_run.items() if k in signature and v is not None}


def splits_read(probe: Callable[..., Any], arguments: Mapping[str, Any]) -> list[Any]:
    """Return the splits that the annotation of a probe's data names, directly or by an argument.

    The last is an ellipsis if the probe may read other splits.
    """
    paths = getattr(hints(probe, extras=True).get("data"), "__metadata__", (...,))
    values = {n: p.default for n, p in parameters(probe).items() if p.default is not p.empty}
    values |= arguments
    splits: list[Any] = []
    for name in paths:
        parts: list[Any] = name.split(".") if isinstance(name, str) else [name]
        value: Any = values.get(parts[0], name)
        for field in parts[1:] if parts[0] in values else ():
            value = getattr(value, field)
        splits += [value] if isinstance(value, str) or value is ... else value
    return splits


def _read_regions(
    spec: TaskSpec, loader: Callable[..., Data], options: Options, lines: list[str]
) -> dict[str, Any]:
    """Return the loader's argument for each kind of regions; add every problem."""
    key, regions = ("data", "regions"), dict[str, Any]()
    with note_problems(lines, partial(spec.document.where, *key)):
        kinds = GenericAlias(dict, (str, hints(loader)["regions"]))
        regions = read(kinds, _expand(spec.data["regions"], options))
    return {kind: _resolve(spec, value, *key, kind) for kind, value in regions.items()}


def _expand(value: Any, options: Options) -> Any:
    """Return a value of a task's file with $VLBENCH_DATA replaced if it is known."""
    root = options.data_folder

    def expand(_: str, leaf: Any) -> Any:
        return leaf.replace(DATA_VARIABLE, str(root)) if root and isinstance(leaf, str) else leaf

    return map_leaves(value, expand)


def _resolve(spec: TaskSpec, value: Any, *key: str, unchanged: Collection[str] = ()) -> Any:
    """Return a value whose paths are relative to the folder of the file with the key."""
    if not any(paths_in(value, "")):
        return value
    return resolve_paths(spec.document.file_of(*key), value, f".{key[-1]}", unchanged)


def _find_companions(
    catalog: Catalog,
    spec: TaskSpec,
    probe: Callable[..., Any],
    arguments: Mapping[str, Any],
    options: Options,
    lines: list[str],
) -> dict[str, list[Model]]:
    """Return the models that a task names besides the model under test, by key.

    Adds every problem. Raises SpecError for a model in a file that belongs to no source.
    """
    companions: dict[str, list[Model]] = {}
    for key, value in arguments.items():
        names = value if isinstance(value, list) else [value]
        for name in (name for name in names if isinstance(name, ModelName)):
            where = spec.document.where("params", key)
            if not options.trust:
                require_own_file(where, name, spec.source)
            try:
                resolved = resolve_model(catalog, name, options.of_companion)
            except UnknownNameError as error:
                lines.append(f"{where}: {error}")
                continue
            companion, gap = fit(resolved, hints(probe)[key])
            lines += [f"{where}: {name} has no {gap}"] if gap else []
            companions.setdefault(key, []).append(companion)
    return companions
