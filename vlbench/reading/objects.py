"""JSON read as dataclasses: the fields and their types are the schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from vlbench.errors import SpecError

# Where a value stands in a file: ("rows", 3, "scores", 0, "ci95").
Key: TypeAlias = tuple[str | int, ...]

# Of a JSON value and how deep it stands: what it is read as.
Reader: TypeAlias = Callable[[Any, int], Any]

# What errors call the types of JSON.
WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
    Mapping: "an object",
    Sequence: "a list",
    tuple: "two numbers",
    dict: "an object",
    list: "a list",
}

# The types that objects and lists are read as where any JSON is allowed.
PLAIN: Mapping[Any, Any] = {dict: Mapping[str, Any], list: Sequence[Any]}

# The types of JSON that other types are read from.
JSON: Mapping[Any, Any] = {Mapping: dict, Sequence: list, tuple: list}

# The longest key allowed: Python's recursion limit would stop the copying of deeper JSON.
DEEPEST = 50


def read_as(kind: Any, value: Any, key: Key) -> Any:
    """Return a JSON value as a value of the type `kind`: a dataclass or a field's annotation.

    Raises SpecError, naming the key, where the value has another type, where an object lacks a key
    or has an unknown one, and for numbers and texts that JSON in UTF-8 cannot hold.
    """
    try:
        return _reader(kind)(value, len(key))
    except _Misfit as error:
        raise error.at(key) from None


def read_object(kind: Any, value: Any, key: Key, *, given: Mapping[str, Any]) -> Any:
    """Return a JSON object as a dataclass; the fields in `given` do not come from the object."""
    try:
        return kind(**given, **_fields(kind, frozenset(given))(value, len(key)))
    except _Misfit as error:
        raise error.at(key) from None


def misfit(wanted: str, found: Any, key: Key) -> SpecError:
    """Return the error for a JSON value that does not fit; `wanted` says what would fit."""
    return _unlike(wanted, found).at(key)


class _Misfit(Exception):  # noqa: N818 - nobody outside of this file sees one
    """What is wrong with a value. The keys that lead to it are added on the way out.

    A large board has millions of values: keys that nobody asks for would cost more than the values.
    """

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = list(path)

    def at(self, key: Key) -> SpecError:
        return SpecError(f"{spelled((*key, *reversed(self.path)))}: {self}")


def _unlike(wanted: str, found: Any) -> _Misfit:
    if isinstance(found, dict | list):
        shown = WORDS[type(found)]
    else:
        shown = repr(found) if isinstance(found, str) else json.dumps(found)
    return _Misfit(f"wanted {wanted}, not {shown:.60}")


@cache
def _reader(kind: Any) -> Reader:
    """Return the function that reads values of a type: of a value, and of how deep it stands."""
    origin, inside = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        read = _fields(kind, frozenset())
        return lambda value, depth: kind(**read(value, depth))
    if origin is UnionType:
        words = " or ".join(WORDS[get_origin(one) or one] for one in inside)
        readers = {JSON.get(get_origin(one), one): _reader(one) for one in inside}
        if float in readers:
            readers.setdefault(int, readers[float])
        return partial(_read_union, readers, words)
    if origin is None:
        return _read_any if kind is Any else partial(_read_plain, kind)
    of = {Mapping: _read_mapping, Sequence: _read_list, tuple: _read_tuple}
    return partial(of[origin], [_reader(one) for one in inside])


@cache
def _fields(kind: Any, given: frozenset[str]) -> Reader:
    """Return the function that reads the fields of a dataclass from an object, less those given."""
    hints = get_type_hints(kind)
    readers = {one.name: _reader(hints[one.name]) for one in fields(kind) if one.name not in given}
    optional = {
        f.name for f in fields(kind) if (f.default, f.default_factory) != (MISSING, MISSING)
    }
    required = [name for name in readers if name not in optional]

    def read(value: Any, depth: int) -> dict[str, Any]:
        if type(value) is not dict:
            raise _unlike(WORDS[dict], value)
        for name in value:
            if name not in readers:
                raise _Misfit(f"is unknown; there are {', '.join(readers)}", name)
        for name in required:
            if name not in value:
                raise _Misfit("is absent", name)
        return _each(value.items(), readers.__getitem__, depth)

    return read


def _each(
    parts: Iterable[tuple[str, Any]], reader: Callable[[str], Reader], depth: int
) -> dict[str, Any]:
    """Return parts by their keys, each read; what is wrong with one gets its key."""
    found = {}
    for key, part in parts:
        try:
            found[key] = reader(key)(part, depth + 1)
        except _Misfit as error:
            error.path.append(key)
            raise
    return found


def _read_plain(kind: Any, value: Any, _: int) -> Any:
    if type(value) is kind or (kind is float and type(value) is int):
        if isinstance(value, str):
            if value.isascii() or value.encode("utf-8", "ignore").decode() == value:
                return value
        elif value is None or abs(value) <= sys.float_info.max:
            return value
    raise _unlike(WORDS.get(kind, "something less deeply nested"), value)


def _read_any(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise _unlike("something less deeply nested", value)
    return _reader(PLAIN.get(type(value), type(value)))(value, depth)


def _read_union(readers: Mapping[Any, Reader], words: str, value: Any, depth: int) -> Any:
    read = readers.get(type(value))
    if read:
        with suppress(_Misfit):
            return read(value, depth)
    raise _unlike(words, value)


def _read_mapping(readers: Sequence[Reader], value: Any, depth: int) -> Any:
    if type(value) is not dict:
        raise _unlike(WORDS[Mapping], value)
    for name in value:
        if not name.isascii():
            _each([(name, name)], lambda _: readers[0], depth)
    return _each(value.items(), lambda _: readers[1], depth)


def _read_list(readers: Sequence[Reader], value: Any, depth: int) -> Any:
    if type(value) is not list:
        raise _unlike(WORDS[Sequence], value)
    read, found = readers[0], []
    for i, part in enumerate(value):
        try:
            found.append(read(part, depth + 1))
        except _Misfit as error:
            error.path.append(i)
            raise
    return found


def _read_tuple(readers: Sequence[Reader], value: Any, depth: int) -> Any:
    if type(value) is not list or len(value) != len(readers):
        raise _unlike(WORDS[tuple], value)
    return tuple(read(part, depth) for read, part in zip(readers, value, strict=True))


def spelled(key: Key) -> str:
    """Return a key as errors name it: `rows[3].scores[0].ci95`."""
    names = (
        f".{k if k.isprintable() else ascii(k)}" if isinstance(k, str) else f"[{k}]" for k in key
    )
    return "".join(names).removeprefix(".")
