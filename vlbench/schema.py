"""Reads plain values of YAML, JSON and the command line according to a signature.

The parameters of a function, or the fields of a NamedTuple, a frozen dataclass or a TypedDict, are
the schema: their names, types and defaults. An int counts as a float, and a bool is not an int. For
a parameter of type Path a text becomes a path, for a record a mapping becomes the record, and for a
capability a text is the name of a model. Numbers must be finite, and texts encodable as UTF-8.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import typing
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache, partial, wraps
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from vlbench.errors import DataError, SpecError

# The place of a value: ("rows", 3, "scores", 0, "ci95").
Key: TypeAlias = tuple[str | int, ...]

# Returns a value converted to a type, or raises Misfit.
Reader: TypeAlias = Callable[[Any], Any]
Called = TypeVar("Called", bound=Callable[..., Any])


class ModelName(str):
    """The name of a model, the value of a parameter annotated with a capability."""

    __slots__ = ()


# The words for a value of a type in messages, singular and plural.
WORDS: Mapping[Any, tuple[str, str]] = {
    str: ("a text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "values true or false"),
    Path: ("a path", "paths"),
    ModelName: ("the name of a model", "names of models"),
    NoneType: ("null", "nulls"),
    list: ("a list", "lists"),
    dict: ("a mapping", "mappings"),
}

# The types of values that are converted to another type.
MADE_FROM: Mapping[Any, set[Any]] = {
    float: {float, int},
    Path: {str, type(Path())},
    ModelName: {str, ModelName},
}

# The types of which plain types consist.
PLAIN = {str, int, bool, Path, NoneType}

# The deepest nesting of lists and mappings if any value is allowed: copying deeper nesting would
# exceed Python's recursion limit.
DEEPEST = 50

# The types that messages show as JSON.
JSON = {bool, int, float, NoneType}

# Whole numbers have 64 bits: libraries accept no larger numbers.
LARGEST = 2**63 - 1

# The most problems of a list that are reported.
MOST_PROBLEMS = 20


class Problem(NamedTuple):
    """The problem of the value at a key."""

    key: Key
    message: str

    def __str__(self) -> str:
        return f"'{spelled(self.key)}' {self.message}" if self.key else self.message


class Misfit(SpecError):  # noqa: N818 - says what happened
    """Values that do not fit their schema, with every problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems

    def below(self, *key: str | int) -> Misfit:
        """Return this error for values below a key."""
        return Misfit(*(Problem((*key, *inner), message) for inner, message in self.problems))

    def lines(self, where: Callable[..., str]) -> list[str]:
        """Return each problem with its place in front, as returned by `where(*key)`."""
        return [f"{where(*problem.key)}: {problem}" for problem in self.problems]


@contextmanager
def blamed_on(where: Callable[..., str], *key: str) -> Iterator[None]:
    """Put file and line of a key before the message of a SpecError."""
    try:
        yield
    except SpecError as error:
        raise SpecError(f"{where(*key)}: {error}") from error


def misfit(wanted: str, value: Any, *key: str | int) -> Misfit:
    """Return the error for a value that is not `wanted`."""
    if isinstance(value, dict | list):
        text = WORDS[type(value)][0]
    else:
        text = json.dumps(value) if type(value) in JSON else repr(value)
    return Misfit(Problem(key, f"must be {wanted}, not {text:.60}"))


def spelled(key: Key) -> str:
    """Return a key as in error messages: `rows[3].scores[0].ci95`."""
    names = (
        f".{k if k.isprintable() else ascii(k)}" if isinstance(k, str) else f"[{k}]" for k in key
    )
    return "".join(names).removeprefix(".")


def read(kind: Any, value: Any) -> Any:
    """Return a plain value converted to a type (a record or an annotation). Raises Misfit."""
    return _reader(kind)(value)


def plain(value: Any) -> Any:
    """Return a value of Python as YAML would have it.

    Sequences and arrays become lists, mappings dicts, and numbers of NumPy numbers of Python.
    Records stay as they are.
    """
    value = value.tolist() if hasattr(type(value), "tolist") else value
    if type(value) in {list, tuple, range}:
        # Most are texts and numbers, of which there may be a label per image.
        return [part if type(part) in {str, int, float} else plain(part) for part in value]
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return value


def reads(function: Called) -> Called:
    """Return a function that raises SpecError for arguments of other types than its signature's.

    Only arguments of plain types are checked, such as texts, numbers and lists of paths. Raises
    DataError instead of OSError and ValueError, as for a path that is too long.
    """

    @wraps(function)
    def read_and_call(*values: Any, **keywords: Any) -> Any:
        bound = inspect.signature(function).bind(*values, **keywords).arguments
        for name, kind in _plain_kinds(function).items():
            if name in bound:
                try:
                    read(kind, plain(bound[name]))
                except Misfit as error:
                    raise SpecError(f"{function.__name__}: {error.below(name)}") from None
        try:
            return function(*values, **keywords)
        except (OSError, ValueError) as error:
            raise DataError(f"{function.__name__}: {error!s:.200}") from error

    return cast("Called", read_and_call)


@cache
def _plain_kinds(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's arguments that consist of plain types."""
    arguments = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
    holder: Any = SimpleNamespace(__annotations__=arguments)  # what it returns need not be imported
    kinds = typing.get_type_hints(holder, function.__globals__, include_extras=True)
    return {name: kind for name, kind in kinds.items() if _is_plain(kind)}


def _is_plain(kind: Any) -> bool:
    inside = typing.get_args(bare(kind))
    return all(map(_is_plain, inside)) if inside else bare(kind) in PLAIN


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogate, so that UTF-8 can encode it."""
    return text.isascii() or text.encode("utf-8", "ignore").decode() == text


def read_arguments(
    function: Callable[..., Any],
    values: Mapping[Any, Any],
    filled: Iterable[str] = (),
    required: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the arguments of a function, or the fields of a record, converted to its types.

    `filled` are arguments that come from elsewhere; `required` arguments may not have their
    defaults. Raises Misfit with every unknown and missing key and every value of another type.
    """
    return _fields(function, frozenset(filled), frozenset(required))(values)


@cache
def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters that can be given by name; `**options: Unpack[...]` adds its keys."""
    forms = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        signature = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise SpecError(f"{function!r} has no signature to check: {error}") from error
    keywords = {name: p for name, p in signature.items() if p.kind in forms}
    # Unpack may be a string, or a type that Python shows as `*SomeTypedDict`.
    packs = {name: str(p.annotation) for name, p in signature.items() if p.kind is p.VAR_KEYWORD}
    for packed in [name for name, text in packs.items() if "Unpack[" in text or text[0] == "*"]:
        (kind,) = typing.get_args(typing.get_type_hints(function)[packed])
        optional = partial(inspect.Parameter, kind=forms[1], default=None)
        keywords |= {name: optional(name, annotation=hint) for name, hint in hints(kind).items()}
    return keywords


@cache
def hints(function: Callable[..., Any], *, extras: bool = False) -> Mapping[str, Any]:
    """Return the annotation of each parameter of a function or class, or of a record's fields.

    The additions of `Annotated` are kept only with `extras`.
    """
    target = function
    if isinstance(function, type) and not is_record(function):
        target = function.__init__  # type: ignore[misc]
    try:
        annotations = typing.get_type_hints(target, include_extras=extras)
    except (NameError, AttributeError, TypeError) as error:
        name = getattr(target, "__qualname__", repr(target))
        raise SpecError(
            f"{name}: an annotation in its signature cannot be resolved: {error}"
        ) from error
    if typing.is_typeddict(function):
        return annotations
    signature = parameters(function)
    unpacked = {name: p.annotation for name, p in signature.items() if name not in annotations}
    kinds = {
        name: Any if kind is inspect.Parameter.empty else kind for name, kind in unpacked.items()
    }
    return kinds | annotations


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of lists, mappings and records, with dotted names: `captioner.weights`."""
    parts = _parts(value)
    if parts is None:
        yield name, value
    for key, part in (parts or {}).items():
        yield from leaves(part, f"{name}.{key}")


def map_leaves(value: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """Return a value with each leaf changed, given its name as in `leaves`."""
    parts = _parts(value)
    if parts is None:
        return change(name, value)
    changed = {key: map_leaves(part, change, f"{name}.{key}") for key, part in parts.items()}
    if isinstance(value, Mapping):
        return changed
    if isinstance(value, list) or type(value) is tuple:
        return type(value)(changed.values())
    return type(value)(**changed)


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """Return the parts of a mapping, a list, a tuple or a record; None for any other value."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return dict(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    return None


def is_record(kind: Any) -> bool:
    """Return whether a mapping can fill a type: a NamedTuple, frozen dataclass, or TypedDict."""
    if not isinstance(kind, type):
        return False
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    is_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return bool(frozen) or is_tuple or typing.is_typeddict(kind)


def alternatives(annotation: Any) -> list[Any]:
    """Return A and B of `A | B`, or only the annotation itself."""
    if typing.get_origin(annotation) in {UnionType, typing.Union}:
        return list(typing.get_args(annotation))
    return [annotation]


def words(kind: Any) -> str:
    """Return the words for values of a type in messages."""
    if allowed := limits(kind):
        return f"{words(bare(kind))} of at least {allowed.start}"
    kind = bare(kind)
    base, inside = _plain_type(kind), typing.get_args(kind)
    if len(alternatives(kind)) > 1:
        options = [option for option in inside if option is not int or float not in inside]
        return " or ".join(dict.fromkeys(map(words, options)))
    if base is typing.Literal:
        return " or ".join(map(repr, inside))
    if is_record(kind):
        return f"a mapping of {', '.join(hints(kind)) or 'nothing'}"
    if base is list and inside:
        parts = [_plain_type(part) for part in alternatives(inside[0]) if part is not int] or [int]
        plural = WORDS[parts[0]][1] if len(parts) == 1 and parts[0] in WORDS else "values"
        count = f"{len(inside)} " if typing.get_origin(kind) is tuple else ""
        return f"a list of {count}{plural}"
    return WORDS[base][0] if base in WORDS else getattr(kind, "__name__", str(kind))


def _plain_type(kind: Any) -> Any:
    """Return the type of the values from which a type is read; other types as they are."""
    kind = bare(kind)
    origin = typing.get_origin(kind) or kind
    if getattr(kind, "_is_protocol", False):
        return ModelName
    return dict if is_record(kind) else ORIGINS.get(origin, origin)


def bare(kind: Any) -> Any:
    """Return a type without the additions of `Annotated`."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind


def limits(kind: Any) -> range | None:
    """Return the whole numbers that `Annotated` allows; None if it sets no limits."""
    added = getattr(kind, "__metadata__", ())
    return next((limit for limit in added if isinstance(limit, range)), None)


ORIGINS: Mapping[Any, type] = {Sequence: list, tuple: list, Mapping: dict}


def _reader(kind: Any) -> Reader:
    """Return the function that reads values of a type."""
    read_bare, allowed = _bare_reader(bare(kind)), limits(kind)
    return partial(_read_limited, words(kind), read_bare, allowed) if allowed else read_bare


def _bare_reader(kind: Any) -> Reader:
    base, inside, wanted = _plain_type(kind), typing.get_args(kind), words(kind)
    if len(alternatives(kind)) > 1:
        options = [(_plain_type(option), _reader(option)) for option in inside]
        by_type = {part: [read for other, read in options if other is part] for part, _ in options}
        return partial(_read_union, wanted, by_type, [read for _, read in options])
    if base is typing.Literal:
        return partial(_read_literal, wanted, inside)
    if is_record(kind):
        return partial(_read_record, wanted, kind)
    if base is list:
        is_tuple = typing.get_origin(kind) is tuple
        read_parts = _read_tuple if is_tuple else _read_list
        return partial(read_parts, wanted, *map(_reader, inside or (Any,)))
    if base is dict:
        return partial(_read_mapping, wanted, *map(_reader, inside or (Any, Any)))
    return _read_any if kind is Any else partial(_read_plain, base, MADE_FROM.get(base, {base}))


@cache
def _fields(
    function: Any, filled: frozenset[str] = frozenset(), required: frozenset[str] = frozenset()
) -> Callable[[Mapping[Any, Any]], dict[str, Any]]:
    """Return the function that reads a function's or record's arguments, except those `filled`."""
    annotations = hints(function, extras=True)
    if typing.is_typeddict(function):
        names, required = [*annotations], function.__required_keys__ | required
    else:
        unfilled = {n: p for n, p in parameters(function).items() if n not in filled}
        required |= {name for name, p in unfilled.items() if p.default is p.empty}
        names = [*unfilled]
    readers = {name: _reader(annotations[name]) for name in names}
    keys = readers.keys()

    def read_fields(entries: Mapping[Any, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        problems, meant = ([], set()) if entries.keys() <= keys else _unknown(entries, readers)
        for name, read_value in readers.items():
            if name in entries:
                try:
                    values[name] = read_value(entries[name])
                except Misfit as error:
                    problems += error.below(name).problems
            elif name in required and name not in meant:
                problems.append(Problem((name,), "is missing"))
        if problems:
            raise Misfit(*problems)
        return values

    return read_fields


def _unknown(keys: Iterable[Any], allowed: Iterable[str]) -> tuple[list[Problem], set[str]]:
    """Return each unknown key, and the keys probably meant, which are not reported as missing."""
    names, problems, meant = list(allowed), [], set()
    for name in keys:
        if name not in names:
            near = get_close_matches(str(name), names, n=1)
            meant |= {*near}
            choices = ", ".join(names) or "none"
            hint = f"did you mean '{near[0]}'?" if near else f"there are {choices}"
            problems.append(Problem((str(name),), f"is unknown; {hint}"))
    return problems, meant


def _read_record(wanted: str, kind: Any, value: Any) -> Any:
    if type(value) is kind:
        return value
    if type(value) is not dict:
        raise misfit(wanted, value)
    fields = _fields(kind)(value)
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:  # the record itself refuses the values
        raise Misfit(Problem((), str(error))) from error


def _read_union(
    wanted: str, by_type: Mapping[Any, Sequence[Reader]], readers: Sequence[Reader], value: Any
) -> Any:
    """Return a value read by the first alternative that it fits.

    If some alternatives have the value's type, only these count: a text is a text rather than a
    path.
    """
    fitting = by_type.get(type(value), readers)
    for read_option in fitting:
        try:
            return read_option(value)
        except Misfit as error:
            if len(fitting) == 1 and error.problems[0].key:
                raise
    raise misfit(wanted, value)


def _read_list(wanted: str, read_part: Reader, value: Any) -> list[Any]:
    if type(value) is not list:
        raise misfit(wanted, value)
    values: list[Any] = []
    problems: list[Problem] = []
    for i, part in enumerate(value):
        try:
            values.append(read_part(part))
        except Misfit as error:
            problems += error.below(i).problems
            if len(problems) >= MOST_PROBLEMS:
                break
    if problems:
        raise Misfit(*problems)
    return values


def _read_mapping(wanted: str, read_key: Reader, read_part: Reader, value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise misfit(wanted, value)
    values = {}
    for key, part in value.items():
        try:
            values[read_key(key)] = read_part(part)
        except Misfit as error:
            raise error.below(str(key)) from None
    return values


def _read_tuple(wanted: str, *readers_and_value: Any) -> tuple[Any, ...]:
    *readers, value = readers_and_value
    if not isinstance(value, list | tuple) or len(value) != len(readers):
        raise misfit(wanted, value)
    pairs = [*zip(readers, value, strict=True)]
    return tuple(_read_list(wanted, lambda pair: pair[0](pair[1]), pairs))


def _read_literal(wanted: str, options: Sequence[Any], value: Any) -> Any:
    if any(value == option and type(value) is type(option) for option in options):
        return value
    raise misfit(wanted, value)


def _read_limited(wanted: str, read_bare: Reader, allowed: range, value: Any) -> Any:
    if (number := read_bare(value)) not in allowed:
        raise misfit(wanted, value)
    return number


def _read_plain(kind: Any, accepted: Container[Any], value: Any) -> Any:
    base = type(value)
    if base in accepted:
        if base is str:
            sound = is_unicode(value)
        else:
            most = {float: sys.float_info.max, int: LARGEST}.get(base)
            sound = most is None or abs(value) <= most
        if sound or kind is Path:
            return value if base is kind else kind(value)
    raise misfit(words(kind), value)


def _read_any(value: Any, depth: int = 0) -> Any:
    """Return any value; lists and mappings are copied."""
    base = type(value)
    if base is not list and base is not dict:
        return _read_plain(base, (base,), value)
    if depth == DEEPEST:
        raise misfit("something less deeply nested", value)
    read_part = partial(_read_any, depth=depth + 1)
    if base is list:
        return _read_list("", read_part, value)
    return _read_mapping("", read_part, read_part, value)
