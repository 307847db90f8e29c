"""Paths among a task's arguments, wherever they stand in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vlbench.errors import UnknownNameError, unknown
from vlbench.metrics.text.evaluated import PREFIX
from vlbench.planning.options import DATA_VARIABLE
from vlbench.resolve import is_record


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
