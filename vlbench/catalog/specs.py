"""Specs of tasks and models: YAML files checked without importing the code they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypedDict

from vlbench.catalog.loaders import full_loader
from vlbench.catalog.sources import capability_files, shipped_source
from vlbench.catalog.strict_yaml import Document, load_yaml
from vlbench.catalog.task_files import DATA, EVERY, merged_tasks
from vlbench.errors import SpecError, unknown
from vlbench.results import At
from vlbench.schema import Misfit, read_arguments
from vlbench.system.files import WANTED_NAME, is_model_name

# The fields of specs that do not come from a key of a file.
ELSEWHERE = ("name", "source", "document", "folders")
# A year, a month or a day.
DATE = r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?"
# The required keys of a task that is not a group.
REQUIRED = ("version", "probe", "data", "primary")


class _Metric(TypedDict):
    metric: str


class Primary(_Metric, total=False):
    """The score that represents a task: a metric, under exactly these conditions."""

    at: At


class _Published(TypedDict):
    model: str
    metric: str
    value: float
    where: str


class Reference(_Published, total=False):
    """A published number and its place in its source: the task's paper, or `source` if given.

    With `floor`, it is this floor of the score, such as a baseline that a paper prints beside it.
    With `recorded`, others recorded the model's answers, and models.yaml need not list the model.
    """

    at: At
    source: str
    floor: str
    recorded: bool


class Cost(TypedDict):
    """A model's cost besides its parameters: FLOPs of its image encoder for a square image."""

    flops: float
    image: int
    licence: str


def read_values(
    kind: Any,
    document: Document,
    values: Mapping[Any, Any],
    *path: str,
    required: Iterable[str] = (),
) -> tuple[dict[str, Any], list[str]]:
    """Return the values at a path as a record's fields, and every problem with them.

    Keys that begin with x- are left out.
    """
    fields = {key: value for key, value in values.items() if not str(key).startswith("x-")}
    try:
        return read_arguments(kind, fields, ELSEWHERE, required), []
    except Misfit as error:
        return fields, error.lines(partial(document.where, *path))


# The tag of tasks on a user's folder of images, and the default root of these images.
IMAGES = "images"
IMAGES_ROOT = "$VLBENCH_DATA/images"


@dataclass(frozen=True)
class TaskSpec:
    """One task: a probe, its data and parameters; or a group of tasks.

    Its probe, loader and figures are looked up in the `folders` before they are imported: folders
    of its source, and of the tasks that it extends. Its loader is `module:function`, even if the
    file has a bare name.

    `under_test` names the probe's parameter that the model under test fills; empty: the first.

    With `compare_across_regions`, regions are a model's input and not what is measured: the probe
    reads regions only from pictures, and rows of all region kinds are comparable.
    """

    name: str
    source: Path
    document: Document
    version: int = 1
    title: str = ""
    probe: str = ""
    under_test: str = ""
    paper: str = ""
    description: str = ""
    tags: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    primary: Primary = field(default_factory=lambda: Primary(metric=""))
    reference: Sequence[Reference] = ()
    group: Sequence[str] = ()
    figures: Sequence[str] = ()
    compare_across_regions: bool = False
    extends: str = ""
    folders: Sequence[Path] = ()

    @property
    def file(self) -> Path:
        """The YAML file."""
        return self.document.file

    @property
    def is_on_images(self) -> bool:
        """Whether it reads a user's own images: a folder for each class."""
        return IMAGES in self.tags or self.data.get("root") == IMAGES_ROOT

    @property
    def primary_score(self) -> dict[str, Any]:
        """The score that represents the task: its metric and conditions."""
        return {"metric": self.primary["metric"], "at": self.primary.get("at", {})}


@dataclass(frozen=True)
class ModelSpec:
    """One model: an adapter and its arguments; or an old name, `renamed` to that of a model.

    `training_data` names data sets, and `released` is a year or an ISO date. `notes` are sentences
    added to its rows on tasks that need a capability, or on `all` tasks.
    """

    name: str
    source: Path
    document: Document
    adapter: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""
    training_images: int | float | None = None
    training_data: Sequence[str] = ()
    parameters: int | None = None
    released: str = ""
    weights: str = ""
    cost: Cost | None = None
    regions: Mapping[str, Any] = field(default_factory=dict)
    without: Sequence[str] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    unavailable: str = ""
    renamed: str = ""

    @property
    def file(self) -> Path:
        """The models.yaml that lists it."""
        return self.document.file

    @property
    def folders(self) -> list[Path]:
        """Folders in which its adapter is looked up: the folder of its file, then vlbench's."""
        return [self.file.parent, shipped_source() / "model_adapters"]


def load_tasks(file: Path, source: Path) -> list[TaskSpec]:
    """Return the tasks of a YAML file. Raises SpecError with all problems of the file."""
    tasks, broken = read_tasks(file, source)
    if broken:
        raise SpecError("\n".join(broken.values()))
    return tasks


def read_tasks(file: Path, source: Path) -> tuple[list[TaskSpec], dict[str, str]]:
    """Return the tasks of a YAML file, and the problems of its broken tasks by name."""
    tasks: list[TaskSpec] = []
    documents, broken = merged_tasks(file, source)
    for name, document in documents.items():
        try:
            tasks.append(_read_task(name, document, source))
        except SpecError as error:
            broken[name] = str(error)
    return tasks, broken


def _read_task(name: str, document: Document, source: Path) -> TaskSpec:
    """Return the task of a merged document. Raises SpecError with all its problems."""
    is_group = "group" in document.values
    required = () if is_group else REQUIRED
    values, problems = read_values(TaskSpec, document, document.values, required=required)
    problems += _group_problems(document) if is_group else _data_problems(document)
    problems += _version_problems(document) + _placeholder_problems(document)
    if problems:
        raise SpecError("\n".join(problems))
    folders = [document.file.parent, source / "probes", source / "data", source]
    if document.base:
        folders += [base.file.parent for base in document.base.chain()]
    data = values.get("data", {})
    if not is_group and ":" not in data["loader"]:
        loader = full_loader(data["loader"], folders, document.where("data", "loader"))
        values["data"] = {**data, "loader": loader}
    return TaskSpec(name, source, document, folders=folders, **values)


def _placeholder_problems(document: Document) -> list[str]:
    """Return the problems of placeholders that are left in the title and description of a set."""
    return [
        f"{document.where(key)}: {placeholder} in '{key}' is not replaced; {DATA} is, if the "
        "task has a data set"
        for key in ("title", "description")
        if document.task
        for placeholder in re.findall(r"\{\w*\}", str(document.values.get(key, "")))
    ]


def _version_problems(document: Document) -> list[str]:
    """Return the problems of a task's version and tags, and of findings among its keys."""
    version, tags = map(document.values.get, ("version", "tags"))
    problems = []
    if type(version) is int and version < 1:
        problems.append(f"{document.where('version')}: 'version' must be 1 or more, not {version}")
    if "findings" in document.values:
        problems.append(
            f"{document.where('findings')}: findings belong in a folder named findings/"
        )
    if isinstance(tags, list) and EVERY in tags:
        problems.append(
            f"{document.where('tags')}: '{EVERY}' selects every task, so it cannot be a tag"
        )
    return problems


def _group_problems(document: Document) -> list[str]:
    group, where = document.values["group"], document.where("group")
    problems = [] if group else [f"{where}: 'group' is empty; name its tasks"]
    keys = [key for key in ("probe", "under_test", "figures") if key in document.values]
    return problems + [f"{where}: a 'group' of tasks cannot have '{key}'" for key in keys]


def _data_problems(document: Document) -> list[str]:
    """Return the problems of a task's data: the keys of its loader and of its regions."""
    data, problems = document.values.get("data"), []
    if isinstance(data, dict) and not isinstance(data.get("loader"), str):
        problem = f"must be a text, not {data['loader']!r}" if "loader" in data else "is missing"
        problems.append(f"{document.where('data', 'loader')}: 'data.loader' {problem}")
    key = "compare_across_regions"
    if key in document.values and not (isinstance(data, dict) and "regions" in data):
        where = document.where(key)
        problems.append(f"{where}: '{key}' is for a task whose 'data' have 'regions'")
    return problems


def load_models(file: Path, source: Path, left_out: list[str] | None = None) -> list[ModelSpec]:
    """Return the models that a models.yaml lists; empty if there is no file.

    With `left_out`, models with refused names are left out, and the reasons are added there. Raises
    SpecError with every other problem.
    """
    if not file.exists():
        return []
    document = load_yaml(file)
    problems: list[str] = []
    models: list[ModelSpec] = []
    names_in = cache(_capability_names)
    for name, entry in document.values.items():
        if not isinstance(entry, dict) or not {"adapter", "unavailable", "renamed"} & set(entry):
            problems.append(f"{document.where(str(name))}: '{name}' needs an adapter")
            continue
        if left_out is not None and not is_model_name(str(name)):
            left_out += _name_problems(document, str(name), entry)
            continue
        values, wrong = read_values(ModelSpec, document, entry, str(name))
        problems += _name_problems(document, str(name), entry) + wrong
        problems += _date_problems(document, str(name), entry)
        problems += _capability_problems(document, str(name), entry, source, names_in)
        if not wrong:
            models.append(ModelSpec(str(name), source, document, **values))
    if problems:
        raise SpecError("\n".join(problems))
    return models


def _name_problems(document: Document, name: str, entry: Mapping[Any, Any]) -> list[str]:
    """Return the problems of a model's name: not allowed, or an old name with other keys."""
    bad = [] if is_model_name(name) else [f"{document.where(name)}: {name!r} {WANTED_NAME}"]
    if "renamed" in entry and len(entry) > 1:
        where = document.where(name, "renamed")
        bad.append(f"{where}: '{name}' is renamed, so it cannot have other keys")
    return bad


def _date_problems(document: Document, name: str, entry: Mapping[Any, Any]) -> list[str]:
    """Return the problems of the date of a model's release."""
    date = entry.get("released", "")
    if not isinstance(date, str) or not date or re.fullmatch(DATE, date):
        return []
    where = document.where(name, "released")
    return [f"{where}: 'released' must be a year or a date such as '2021-01', not {date!r}"]


def _capability_problems(
    document: Document,
    name: str,
    entry: Mapping[Any, Any],
    source: Path,
    names_in: Callable[[Path], set[str]],
) -> list[str]:
    """Return a problem for each capability in a model's entry that is not defined."""
    problems, shipped = [], names_in(shipped_source())
    for key in ("without", "notes"):
        entries = entry.get(key) if isinstance(entry.get(key), list | dict) else []
        names = [name for name in entries or [] if (key, name) != ("notes", EVERY)]
        defined = shipped if set(map(str, names)) <= shipped else shipped | names_in(source)
        lacking = [str(name) for name in names if name not in defined]
        where = document.where(name, key)
        problems += [f"{where}: {unknown('capability', word, defined)}" for word in lacking]
    return problems


def _capability_names(source: Path) -> set[str]:
    return {name for names in capability_files(source).values() for name in names}
