"""JSON read as dataclasses: the fields and their types are the schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
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
        often = {Any: _read_any, str: _read_text, float: _read_number}
        return often.get(kind) or partial(_read_plain, kind)
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
    required = readers.keys() - optional

    def read(value: Any, depth: int) -> dict[str, Any]:
        if type(value) is not dict:
            raise _unlike(WORDS[dict], value)
        if not value.keys() <= readers.keys():
            name = next(name for name in value if name not in readers)
            raise _Misfit(f"is unknown; there are {', '.join(readers)}", name)
        if not required <= value.keys():
            raise _Misfit(
                "is absent", next(name for name in readers if name in required - value.keys())
            )
        return _each(value, readers, depth)

    return read


def _each(value: Mapping[str, Any], readers: Mapping[str, Reader], depth: int) -> dict[str, Any]:
    """Return the parts of an object, each read; what is wrong with one gets its key."""
    found, name = {}, ""
    try:
        for name, part in value.items():
            found[name] = readers[name](part, depth + 1)
    except _Misfit as error:
        error.path.append(name)
        raise
    return found


def _read_text(value: Any, depth: int) -> Any:
    return value if type(value) is str and value.isascii() else _read_plain(str, value, depth)


def _read_number(value: Any, depth: int) -> Any:
    fits = type(value) is float and -sys.float_info.max <= value <= sys.float_info.max
    return value if fits else _read_plain(float, value, depth)


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
    try:
        if read:
            return read(value, depth)
    except _Misfit:
        pass
    raise _unlike(words, value)


def _read_mapping(readers: Sequence[Reader], value: Any, depth: int) -> Any:
    if type(value) is not dict:
        raise _unlike(WORDS[Mapping], value)
    for name in value:
        if not name.isascii():
            _each({name: name}, {name: readers[0]}, depth)
    return _each(value, dict.fromkeys(value, readers[1]), depth)


def _read_list(readers: Sequence[Reader], value: Any, depth: int) -> Any:
    if type(value) is not list:
        raise _unlike(WORDS[Sequence], value)
    read, found = readers[0], []
    # No sum with NaN or infinity is below.
    are_plain = read is _read_number and {*map(type, value)} == {float}
    if are_plain and sum(map(abs, value)) <= sys.float_info.max:
        return value
    try:
        for part in value:
            found.append(read(part, depth + 1))  # noqa: PERF401 - how many are read is needed
    except _Misfit as error:
        error.path.append(len(found))
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
