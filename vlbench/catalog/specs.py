"""Specs of tasks and models: YAML files checked without importing what they name."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from vlbench.catalog.sources import capability_files, shipped_source
from vlbench.catalog.strict_yaml import Document, load_yaml
from vlbench.errors import SpecError, unknown
from vlbench.files import WANTED_NAME, is_file_name, is_model_name


def checked(
    document: Document,
    values: Mapping[str, Any],
    allowed: Mapping[str, tuple[type, ...]],
    path: tuple[str, ...],
) -> tuple[dict[str, Any], list[str]]:
    """Return the values without x- keys, and each unknown key and wrong type."""
    problems = []
    kept = {key: value for key, value in values.items() if not str(key).startswith("x-")}
    for key, value in kept.items():
        where = document.where(*path, str(key))
        if key not in allowed:
            near = nearest(key, allowed)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(allowed)}"
            problems.append(f"{where}: unknown '{key}'; {hint}")
        elif type(value) not in allowed[key]:
            names = " or ".join(kind.__name__ for kind in allowed[key])
            problems.append(f"{where}: '{key}' must be {names}, not {value!r}")
    return kept, problems


def nearest(key: Any, allowed: Iterable[str]) -> list[str]:
    """Return the allowed key that an unknown one probably means; none where it is like no other."""
    return get_close_matches(str(key), list(allowed), n=1)


def is_at(at: Any) -> bool:
    """Return whether conditions are texts or numbers by name."""
    pairs = at.items() if isinstance(at, dict) else [(None, at)]
    return all(isinstance(k, str) and isinstance(v, str | int | float) for k, v in pairs)


@dataclass(frozen=True)
class TaskSpec:
    """One task: a probe, its data and parameters; or a group of tasks.

    With `own_regions`, the regions that a model reads are how it sees an image and not what is
    measured: the probe finds them in pictures alone, and rows of all kinds are comparable.
    """

    name: str
    source: Path
    document: Document
    version: int = 1
    probe: str = ""
    paper: str = ""
    description: str = ""
    tags: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    primary: Mapping[str, Any] = field(default_factory=dict)
    reference: Sequence[Mapping[str, Any]] = ()
    group: Sequence[str] = ()
    figures: Sequence[str] = ()
    own_regions: bool = False
    extends: str = ""

    @property
    def file(self) -> Path:
        """The YAML file."""
        return self.document.file

    @property
    def primary_score(self) -> dict[str, Any]:
        """The score that stands for the task: its metric and conditions."""
        return {"metric": self.primary["metric"], "at": self.primary.get("at", {})}

    @property
    def folders(self) -> list[Path]:
        """Where its probe, loader and figures are looked up before they are imported."""
        return [self.file.parent, self.source / "probes", self.source / "data", self.source]


@dataclass(frozen=True)
class ModelSpec:
    """One model: an adapter and its arguments."""

    name: str
    source: Path
    document: Document
    adapter: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""
    training_images: int | float | None = None
    weights: str = ""
    regions: Mapping[str, Any] = field(default_factory=dict)
    without: Sequence[str] = ()
    unavailable: str = ""

    @property
    def file(self) -> Path:
        """The models.yaml that lists it."""
        return self.document.file

    @property
    def folders(self) -> list[Path]:
        """Where its adapter is looked up before it is imported: its own source, then vlbench's."""
        return [self.file.parent, shipped_source() / "model_adapters"]


# The word that selects every task.
EVERY = "all"

TASK_KEYS: dict[str, tuple[type, ...]] = {
    "version": (int,),
    "probe": (str,),
    "paper": (str,),
    "description": (str,),
    "tags": (list,),
    "data": (dict,),
    "model": (dict,),
    "params": (dict,),
    "primary": (dict,),
    "reference": (list,),
    "group": (list,),
    "figures": (list,),
    "own_regions": (bool,),
    "extends": (str,),
}

# What a task takes over from the one that it extends: whole, or key by key.
INHERITED, MERGED = ("probe", "paper", "primary", "figures"), ("data", "model", "params")
MODEL_KEYS: dict[str, tuple[type, ...]] = {
    "adapter": (str,),
    "params": (dict,),
    "paper": (str,),
    "training_images": (int, float),
    "weights": (str,),
    "regions": (dict,),
    "without": (list,),
    "unavailable": (str,),
}


def load_task(file: Path, source: Path) -> list[TaskSpec]:
    """Return the task of a YAML file. Raises SpecError with all that is wrong with it."""
    document = _extended(load_yaml(file), source)
    values, problems = checked(document, document.values, TASK_KEYS, ())
    meant = {near for key in values if key not in TASK_KEYS for near in nearest(key, TASK_KEYS)}
    own = _group_problems(document) if "group" in values else _probe_problems(document, meant)
    problems += own
    problems += _text_problems(document, "tags", "a tag") + _name_problems(document)
    problems += _text_problems(document, "figures", "a figure")
    problems += _reference_problems(document)
    if problems:
        raise SpecError("\n".join(problems))
    return [TaskSpec(file.stem, source, document, **values)]


def _extended(document: Document, source: Path) -> Document:
    """Return a task with what it takes over from the task of its source that it extends.

    Raises SpecError where there is no such task, or several, and where that one extends another.
    """
    if "extends" not in document.values:
        return document
    name, where = str(document.values["extends"]), document.where("extends")
    beside = document.file.with_name(f"{name}.yaml")
    files = [beside] if beside.is_file() else _task_files(source, name)
    if len(files) != 1 or name == document.file.stem:
        known = {file.stem for file in _task_files(source)} - {document.file.stem}
        raise SpecError(f"{where}: {unknown('task of this source', name, known)}")
    base = load_yaml(files[0])
    if {"extends", "group"} & set(base.values) or "group" in document.values:
        raise SpecError(f"{where}: a task extends one with a probe, that extends no other")
    values = {key: base.values[key] for key in INHERITED if key in base.values} | document.values
    for key in MERGED:
        theirs, own = (one.values.get(key, {}) for one in (base, document))
        if isinstance(theirs, dict) and isinstance(own, dict) and (theirs or own):
            values[key] = theirs | own
    return document._replace(values=values, base=base)


def _task_files(source: Path, name: str = "*") -> list[Path]:
    return sorted((source / "tasks").rglob(f"{name}.yaml"))


def _name_problems(document: Document) -> list[str]:
    """Return what is wrong with the name of a task, its version, and its tags."""
    name, version, tags = document.file.stem, *map(document.values.get, ("version", "tags"))
    problems = []
    if not is_file_name(name) or name == EVERY:
        problems.append(f"{document.file}: {name!r} is no name for a task; rename the file")
    if type(version) is int and version < 1:
        problems.append(f"{document.where('version')}: 'version' must be 1 or more, not {version}")
    if "claims" in document.values:
        problems.append(f"{document.where('claims')}: claims stand in a folder named claims/")
    if isinstance(tags, list) and EVERY in tags:
        problems.append(f"{document.where('tags')}: '{EVERY}' selects every task; it is no tag")
    return problems


def _reference_problems(document: Document) -> list[str]:
    """Return each published number without its model, metric, value or source."""
    given = document.values.get("reference")
    return [
        f"{document.where('reference', str(i))}: a reference is "
        "{model: ..., metric: ..., value: a number, where: ...} and perhaps at: {...}"
        for i, one in enumerate(given if isinstance(given, list) else [])
        if not _is_reference(one)
    ]


def _is_reference(one: Any) -> bool:
    if not isinstance(one, dict):
        return False
    texts = [one.get(key) for key in ("model", "metric", "where")]
    known = set(one) <= {"model", "metric", "at", "value", "where"}
    number = type(one.get("value")) in {int, float}
    return known and number and all(isinstance(t, str) for t in texts) and is_at(one.get("at", {}))


def _group_problems(document: Document) -> list[str]:
    group, where = document.values["group"], document.where("group")
    problems = [] if group else [f"{where}: 'group' is empty; name its tasks"]
    problems += _text_problems(document, "group", "a task of a group")
    own = [key for key in ("probe", "figures") if key in document.values]
    return problems + [f"{where}: a 'group' of tasks has no '{key}' of its own" for key in own]


def _text_problems(document: Document, key: str, what: str) -> list[str]:
    """Return the values of a list that are no texts; a value that is no list is found elsewhere."""
    values = document.values.get(key)
    wrong = [v for v in values if not isinstance(v, str)] if isinstance(values, list) else []
    return [f"{document.where(key)}: {what} must be str, not {value!r}" for value in wrong]


def _probe_problems(document: Document, meant: Container[str]) -> list[str]:
    """Return what is wrong with a task; a key that is `meant` by a misspelt one is not missing."""
    values = document.values
    wanted = ("version", "probe", "data", "primary")
    missing = [key for key in wanted if key not in values and key not in meant]
    problems = [f"{document.file}: '{key}' is missing" for key in missing]
    data, primary = values.get("data"), values.get("primary")
    if isinstance(data, dict) and not isinstance(data.get("loader"), str):
        found = f"must be str, not {data['loader']!r}" if "loader" in data else "is missing"
        problems.append(f"{document.where('data', 'loader')}: 'loader' {found}")
    if isinstance(primary, dict) and not _is_primary(primary):
        problems.append(f"{document.where('primary')}: 'primary' is {{metric: ..., at: {{...}}}}")
    if "own_regions" in values and not (isinstance(data, dict) and "regions" in data):
        where = document.where("own_regions")
        problems.append(f"{where}: 'own_regions' is for a task whose 'data' have 'regions'")
    return problems


def _is_primary(primary: Mapping[str, Any]) -> bool:
    named = isinstance(primary.get("metric"), str) and set(primary) <= {"metric", "at"}
    return named and is_at(primary.get("at", {}))


def load_models(file: Path, source: Path) -> list[ModelSpec]:
    """Return the models that a models.yaml lists; none where there is no file."""
    if not file.exists():
        return []
    document = load_yaml(file)
    problems: list[str] = []
    found: list[ModelSpec] = []
    names_in = cache(_capability_names)
    for name, entry in document.values.items():
        if not isinstance(entry, dict) or not {"adapter", "unavailable"} & set(entry):
            problems.append(f"{document.where(str(name))}: '{name}' needs an adapter")
            continue
        values, wrong = checked(document, entry, MODEL_KEYS, (str(name),))
        if not is_model_name(str(name)):
            problems.append(f"{document.where(str(name))}: {name!r} {WANTED_NAME}")
        problems += wrong
        if isinstance(entry.get("without"), list):
            where = document.where(str(name), "without")
            problems += _without_problems(where, source, entry["without"], names_in)
        if not wrong:
            found.append(ModelSpec(str(name), source, document, **values))
    if problems:
        raise SpecError("\n".join(problems))
    return found


def _without_problems(
    where: str, source: Path, without: Sequence[Any], names_in: Callable[[Path], set[str]]
) -> list[str]:
    """Return the names in `without` that no capability of vlbench or of the source has."""
    shipped = names_in(shipped_source())
    known = shipped if set(map(str, without)) <= shipped else shipped | names_in(source)
    return [f"{where}: {unknown('capability', str(c), known)}" for c in without if c not in known]


def _capability_names(source: Path) -> set[str]:
    return {name for names in capability_files(source).values() for name in names}
