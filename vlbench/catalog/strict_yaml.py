"""Strict YAML: no anchors, no tags, no duplicate keys; the line of every key is known.

Words follow YAML 1.2's core schema: `1e-4` is a float, `no` and `on` are texts. Numbers are decimal
and finite.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from vlbench.errors import SpecError
from vlbench.system import files

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LARGEST = 2**64 - 1
# A file changed less than this many nanoseconds ago may change again with the same timestamp.
SETTLED = 2_000_000_000
# The deepest nesting of lists and mappings.
DEEPEST = 100


class _Loader(_Base):  # type: ignore[misc]
    """PyYAML's safe loader with other rules for numbers, booleans and null."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - PyYAML's own way


def _resolve(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


_resolve("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_resolve("null", r"^(?:~|null|Null|NULL|)$", "~nN\0")
_Loader.yaml_implicit_resolvers[""] = _Loader.yaml_implicit_resolvers.pop("\0")
_resolve("int", r"^[-+]?[0-9]+$", "-+0123456789")
_resolve("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789")


class Document(NamedTuple):
    """A file's values, and the line of each key under its path, such as `("params", "shots")`.

    Indices of lists are keys, too: `("reference", "0", "model")`. `base` is the document that this
    file extends. If a file defines several tasks, `task` is the name of this task, and the empty
    path has the line at which its keys begin.
    """

    file: Path
    values: dict[str, Any]
    lines: dict[tuple[str, ...], int]
    base: Document | None = None
    task: str = ""

    def where(self, *key: str | int) -> str:
        """Return `file:line` of a key, or of the nearest key above it; with `task` if it is set."""
        path, task = tuple(map(str, key)), f" ({self.task})" if self.task else ""
        for length in range(len(path), -1, -1):
            for document in self.chain():
                if path[:length] in document.lines:
                    return f"{document.file}:{document.lines[path[:length]]}{task}"
        return str(self.file)

    def file_of(self, *path: str) -> Path:
        """Return the file that has a key."""
        return next((one.file for one in self.chain() if path in one.lines), self.file)

    def chain(self) -> Iterator[Document]:
        """Yield this document, the document that it extends, and so on."""
        yield self
        if self.base:
            yield from self.base.chain()


def load_yaml(file: Path) -> Document:
    """Return a YAML file's mapping, which must not be changed. Raises SpecError with file and line.

    An unchanged file is parsed once per process.
    """
    try:
        stat = file.stat()
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}") from error
    if time.time_ns() - stat.st_mtime_ns < SETTLED:
        return _parse(file)
    return _parse_once(file, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@cache
def _parse_once(file: Path, *_: int) -> Document:
    return _parse(file)


def _parse(file: Path) -> Document:
    try:
        text = files.read_text(file, files.MOST_YAML)
        _refuse(file, text)
        lines: dict[tuple[str, ...], int] = {}
        values = _construct(file, yaml.compose(text, Loader=_Loader), (), lines)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", error)
        raise SpecError(f"{file}: cannot be read: {why}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        problem = getattr(error, "problem", None) or error
        if "nesting depth" in str(problem):  # PyYAML's own limit, since 6.0.4
            raise SpecError(f"{file}: nested too deeply") from error
        raise SpecError(f"{where}: not YAML: {problem}") from error
    if not isinstance(values, dict):
        raise SpecError(f"{file}: must be a mapping of keys to values")
    return Document(file, values, lines)


def scalar(text: str) -> Any:
    """Return a word of a command line as YAML reads it: a number, a bool, null, or the text."""
    return _value(_Loader("").resolve(yaml.ScalarNode, text, (True, False)), text)


def flow_value(text: str, where: str) -> Any:
    """Return a text of a command line as YAML reads it: a word, or a list or mapping in brackets.

    Raises SpecError that begins with `where`.
    """
    try:
        _refuse(Path(where), text)
        return _construct(Path(where), yaml.compose(text, Loader=_Loader), (), {})
    except yaml.YAMLError as error:
        why = getattr(error, "problem", None) or error
        raise SpecError(f"{where}: not YAML: {why}") from error


def _refuse(file: Path, text: str) -> None:
    """Raise SpecError for anchors, tags and deep nesting, before any value is built."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        where = f"{file}:{event.start_mark.line + 1 if event.start_mark else 1}"
        if getattr(event, "anchor", None):
            raise SpecError(f"{where}: anchors and aliases are not allowed; write the value out")
        tag = getattr(event, "tag", None)
        if tag:
            raise SpecError(f"{where}: the tag {tag} is not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise SpecError(f"{file}: nested too deeply")


def _construct(
    file: Path, node: Any, path: tuple[str, ...], lines: dict[tuple[str, ...], int]
) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(file, node, path, lines)
    if isinstance(node, yaml.SequenceNode):
        places = [(*path, str(i)) for i in range(len(node.value))]
        lines |= {p: n.start_mark.line + 1 for p, n in zip(places, node.value, strict=True)}
        return [_construct(file, n, p, lines) for p, n in zip(places, node.value, strict=True)]
    return _scalar(file, node) if node else None


def _mapping(
    file: Path, node: yaml.MappingNode, path: tuple[str, ...], lines: dict[tuple[str, ...], int]
) -> dict[Any, Any]:
    values: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise SpecError(f"{file}:{line}: a key must be a word or a number")
        key = _scalar(file, key_node)
        if key in values:
            raise SpecError(f"{file}:{line}: duplicate key '{key}'")
        lines[(*path, str(key))] = line
        values[key] = _construct(file, value_node, (*path, str(key)), lines)
    return values


def _scalar(file: Path, node: yaml.ScalarNode) -> Any:
    try:
        return _value(node.tag, node.value)
    except ValueError as error:
        raise SpecError(f"{file}:{node.start_mark.line + 1}: no number: {error}") from error


def _value(tag: str, text: str) -> Any:
    match tag.rpartition(":")[2]:
        case "bool":
            return text.lower() == "true"
        case "null":
            return None
        case "int":
            return _whole(text)
        case "float":
            number = float(text)
            if not math.isfinite(number):
                raise ValueError(f"{text} is too large")
            return number
    return text


def _whole(text: str) -> int:
    """Return a whole number of up to 64 bits. Raises ValueError for a larger number."""
    if len(text.lstrip("+-0")) > len(str(LARGEST)) or abs(int(text)) > LARGEST:
        raise ValueError(f"{text:.20}... is too large")
    return int(text)
