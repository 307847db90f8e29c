"""Task files: the tasks that a file defines, and what they take over from elsewhere.

A file defines a task of its own name. With `sets`, it defines a task FILE_SET for each set instead:

    title: "Few-shot classification, {data}"
    sets:
      cifar10: {}
      digits: {version: 4, model: null}
      fashion_mnist_10000: {data_set: fashion_mnist, data: {train: 10000}}

A set takes over all keys of its file, as a task takes over keys of the task that it `extends`:
data, model and params are merged key by key. A key that is null in a set is left out of its task.

The data sets of a source are in its tasks/data_sets.yaml, each with `title`, `data` and optionally
`description`; vlbench's data sets are known in all sources. A task reads the data set that its
`data_set` names. The default is the data set with the name of the set, if the task has no loader
and extends no task. The title of the data set replaces {data} in the task's title, and its
description (or title) replaces {data} in the task's description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.catalog.loaders import full_loader
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.strict_yaml import Document, load_yaml
from vlbench.errors import SpecError, unknown
from vlbench.schema import Misfit, read
from vlbench.system.files import is_file_name

DATA_SETS = "data_sets.yaml"
# The placeholder in titles and descriptions.
DATA = "{data}"
# The word that selects every task.
EVERY = "all"
# The keys that a task inherits from the task it extends: whole, or merged key by key.
INHERITED = ("probe", "under_test", "paper", "primary", "figures", "compare_across_regions")
MERGED = ("data", "model", "params")


class ListedData(NamedTuple):
    """A data set in a data_sets.yaml: its words in titles and descriptions, and its `data`."""

    title: str
    data: Mapping[str, Any]
    description: str = ""


def is_data_sets(file: Path) -> bool:
    """Return whether a YAML file lists a source's data sets."""
    return file.name == DATA_SETS and file.parent.name == "tasks"


def check_data_sets(file: Path) -> None:
    """Raise SpecError with every problem of a data_sets.yaml."""
    document, problems = load_yaml(file), []
    source = file.parent.parent
    folders = [file.parent, source / "probes", source / "data", source]
    for name in document.values:
        try:
            loader = _read_data_set(document, name).data.get("loader", ":")
            if isinstance(loader, str) and ":" not in loader:
                full_loader(loader, folders, document.where(name, "data", "loader"))
        except SpecError as error:
            problems.append(str(error))
    if problems:
        raise SpecError("\n".join(problems))


def own_text(document: Document) -> str:
    """Return the text of a task's file; of a file with sets, only the lines of this task's keys.

    A comment belongs to the key below it.
    """
    text = document.file.read_text("utf-8")
    if not document.task:
        return text
    kept, comments = list[str](), list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        comments.append(line)
        if not line.lstrip().startswith("#"):
            kept += comments if number in document.lines.values() else []
            comments = []
    return "\n".join(kept)


def merged_tasks(file: Path, source: Path) -> tuple[dict[str, Document], dict[str, str]]:
    """Return the tasks of a file by name, with what they take over, and the problems of others."""
    tasks: dict[str, Document] = {}
    broken: dict[str, str] = {}
    try:
        unmerged = _unmerged_tasks(file)
    except SpecError as error:
        return {}, {file.stem: str(error)}
    for name, document in unmerged.items():
        try:
            tasks[name] = _merged_task(document, source)
        except SpecError as error:
            broken[name] = str(error)
    return tasks, broken


def _unmerged_tasks(file: Path) -> dict[str, Document]:
    """Return the tasks of a file by name, without what they take over from other files.

    Raises SpecError if the file cannot be read, or a task has no valid name, or a set no mapping.
    """
    if not is_file_name(file.stem) or file.stem == EVERY:
        raise SpecError(f"{file}: {file.stem!r} is not a name for a task; rename the file")
    document = load_yaml(file)
    if "sets" not in document.values:
        return {file.stem: document}
    sets = _read_sets(document)
    shared = document._replace(
        values={key: value for key, value in document.values.items() if key != "sets"},
        lines={path: line for path, line in document.lines.items() if path[0] != "sets"},
    )
    tasks = (_task_of_set(name, part, shared) for name, part in sets.items())
    return {task.task: task for task in tasks}


def _read_sets(document: Document) -> dict[str, Document]:
    """Return the sets of a file by name. Raises SpecError for a bad name, or for no mapping."""
    sets = document.values["sets"]
    if not isinstance(sets, dict) or not sets:
        raise SpecError(f"{document.where('sets')}: 'sets' must be a mapping of at least one set")
    for name, entry in sets.items():
        where = document.where("sets", name)
        if not isinstance(name, str) or not is_file_name(name):
            raise SpecError(f"{where}: {name!r} is not a name for a set")
        if not isinstance(entry, dict):
            task = f"{document.file.stem}_{name}"
            raise SpecError(f"{where}: the set of {task} must be a mapping of keys")
    documents = {name: Document(document.file, entry, {}) for name, entry in sets.items()}
    for path, line in document.lines.items():
        if path[0] == "sets" and len(path) > 1:
            documents[path[1]].lines[path[2:]] = line
    return documents


def _task_of_set(name: str, part: Document, shared: Document) -> Document:
    """Return the task of a set: the keys that all sets of its file share, changed by its own."""
    values = _merge(part.values, shared.values, shared.values)
    left_out = {key for key, value in part.values.items() if value is None}
    values = {key: value for key, value in values.items() if key not in left_out}
    data = values.get("data", {})
    if not {"extends", "group"} & {*values} and isinstance(data, dict) and "loader" not in data:
        values.setdefault("data_set", name)
    merged = {key for key in MERGED if isinstance(part.values.get(key), dict)}
    lines = {
        path: line
        for path, line in shared.lines.items()
        if path[0] not in part.values or (path[0] in merged and path[:2] not in part.lines)
    }
    task = f"{shared.file.stem}_{name}"
    return Document(shared.file, values, {**lines, **part.lines}, task=task)


def _merged_task(document: Document, source: Path, above: Sequence[Document] = ()) -> Document:
    """Return a task with what it takes over from its data set and from the task it extends.

    `above` are the tasks that extend it. Raises SpecError if the data set or the extended task does
    not exist, if the latter is ambiguous or a group, or if tasks extend each other in a circle.
    """
    document = _with_data_set(document, source)
    if "extends" not in document.values:
        return document
    base, home = _find_base(document, source)
    where, extending = document.where("extends"), [*above, document]
    places = [(task.file, task.task) for task in extending]
    if (place := (base.file, base.task)) in places:
        circle = [file for file, _ in [*places[places.index(place) :], place]]
        raise SpecError(f"{where}: circular 'extends': {' extends '.join(map(str, circle))}")
    base = _merged_task(base, home, extending)
    if "group" in {*base.values, *document.values}:
        raise SpecError(f"{where}: 'extends' is for tasks with a probe, not for groups")
    lines = {path: n for path, n in base.lines.items() if {*path[:1]} & {*INHERITED, *MERGED}}
    base = base._replace(lines=lines)
    data_set = document.base and document.base._replace(base=base)
    values = _merge(document.values, base.values, INHERITED)
    return document._replace(values=values, base=data_set or base)


def _merge(top: Mapping[str, Any], base: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return keys of a base and all own keys; mappings in MERGED are merged key by key."""
    values = {key: base[key] for key in keys if key in base} | {**top}
    for key in MERGED:
        theirs, ours = base.get(key, {}), top.get(key, {})
        if isinstance(theirs, dict) and isinstance(ours, dict) and (theirs or ours):
            values[key] = theirs | ours
    return values


def _find_base(document: Document, source: Path) -> tuple[Document, Path]:
    """Return the task that another task extends, and its source.

    It is searched beside the extending file, in its source, and in the shipped source; the first
    match is used. Raises SpecError if there is none, or if a source has it several times.
    """
    name, where = str(document.values["extends"]), document.where("extends")
    shipped = shipped_source()
    for files, home in (
        (document.file.parent.glob("*.yaml"), source),
        ((source / "tasks").rglob("*.yaml"), source),
        ((shipped / "tasks").rglob("*.yaml"), shipped),
    ):
        matches = sorted(f for f in files if name.startswith(f.stem) and name in _unmerged_tasks(f))
        if len(matches) > 1:
            raise SpecError(f"{where}: '{name}' is in {' and '.join(map(str, matches))}")
        if matches:
            return _unmerged_tasks(matches[0])[name], home
    names: set[str] = set()
    for home in (source, shipped):
        for file in (home / "tasks").rglob("*.yaml"):
            with suppress(SpecError):
                names |= {*_unmerged_tasks(file)}
    raise SpecError(f"{where}: {unknown('task', name, names - {document.file.stem})}")


def _with_data_set(document: Document, source: Path) -> Document:
    """Return a task with the data of its data set, and with its words in place of {data}."""
    if "data_set" not in document.values:
        return document
    values = {**document.values}
    name, names = values.pop("data_set"), set[str]()
    for file in (home / "tasks" / DATA_SETS for home in (source, shipped_source())):
        data_sets = load_yaml(file) if file.is_file() else Document(file, {}, {})
        names |= {*map(str, data_sets.values)}
        if isinstance(name, str) and name in data_sets.values:
            break
    else:
        raise SpecError(f"{document.where('data_set')}: {unknown('data set', str(name), names)}")
    title, data, description = _read_data_set(data_sets, name)
    changes = values.get("data", {})
    values["data"] = {**data, **changes} if isinstance(changes, dict) else changes
    for key, word in (("title", title), ("description", description or title)):
        if isinstance(text := values.get(key), str):
            values[key] = text.replace(DATA, word)
    lines = {p[1:]: n for p, n in data_sets.lines.items() if p[0] == name and "data" in p[1:2]}
    return document._replace(values=values, base=Document(data_sets.file, {}, lines))


def _read_data_set(document: Document, name: str) -> ListedData:
    """Return a data set of a data_sets.yaml. Raises SpecError with file and lines."""
    try:
        data_set: ListedData = read(ListedData, document.values[name])
    except Misfit as error:
        raise SpecError("\n".join(error.lines(partial(document.where, str(name))))) from error
    return data_set
