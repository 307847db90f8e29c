"""`module:name` -> object, and keyword arguments checked against its signature."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import typing
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.capabilities import alternatives, is_capability
from vlbench.errors import Exited, SpecError, exits_as_errors
from vlbench.plugins import load_file

# What importing somebody's file may raise: a broken file is a message, not a traceback.
IMPORT_ERRORS = (
    *(ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, LookupError),
    *(RuntimeError, OSError, AssertionError, ArithmeticError),
)


class Problem(NamedTuple):
    """What is wrong with one keyword argument."""

    key: str
    message: str


def load_object(name: str, folders: Sequence[Path]) -> Any:
    """Return the object that `module:name` names.

    `module.py` is looked up in the folders first and loaded from its path; otherwise the module is
    imported as usual. Raises SpecError.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise SpecError(f"'{name}' is not of the form module:name")
    files = [folder / f"{module_name}.py" for folder in folders]
    file = next((file for file in files if file.is_file()), None)
    try:
        with exits_as_errors():
            module = load_file(file) if file else importlib.import_module(module_name)
    except Exited as error:
        raise SpecError(f"'{module_name}' cannot be imported: {error}") from error
    except IMPORT_ERRORS as error:
        raise SpecError(
            f"'{module_name}' cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        near = get_close_matches(attribute, dir(module), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise SpecError(f"'{module_name}' has no '{attribute}'{hint}")
    return getattr(module, attribute)


@contextmanager
def blamed_on(where: str) -> Iterator[None]:
    """Put file and line before the message of a SpecError."""
    try:
        yield
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from error


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotation of each parameter of a function or class, or of a record's fields."""
    target = function
    if isinstance(function, type) and not is_record(function):
        target = function.__init__  # type: ignore[misc]
    try:
        annotations = typing.get_type_hints(target)
    except (NameError, AttributeError, TypeError) as error:
        name = getattr(target, "__qualname__", repr(target))
        raise SpecError(
            f"{name}: an annotation of its signature does not resolve: {error}"
        ) from error
    names = [name for name in parameters(function) if name not in annotations]
    return annotations | dict.fromkeys(names, Any)


def is_record(kind: Any) -> bool:
    """Return whether a type is a NamedTuple or a frozen dataclass, which a mapping can fill."""
    if not isinstance(kind, type):
        return False
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return bool(frozen) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters that can be given by name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise SpecError(f"{function!r} has no signature to check: {error}") from error
    return {name: p for name, p in found.items() if p.kind in named}


def check_arguments(
    function: Callable[..., Any],
    given: Mapping[str, Any],
    *,
    filled: Container[str] = (),
    above: str = "",
) -> tuple[dict[str, Any], list[Problem]]:
    """Return keyword arguments as the signature has them, and every problem with them.

    `filled` are the parameters that vlbench itself fills. An int is a float, a bool is no int,
    a text is a path where a path is wanted; a companion is a model's name or a list of names; a
    mapping is a NamedTuple or a frozen dataclass, whose fields are checked alike. A problem's key
    is dotted; `above` is the prefix of the keys of a nested mapping.
    """
    wanted = {n: p for n, p in parameters(function).items() if n not in filled}
    annotations = hints(function)
    arguments: dict[str, Any] = {}
    problems = [
        Problem(f"{above}{key}", f"unknown '{above}{key}'; {_nearest(key, wanted)}")
        for key in given
        if key not in wanted
    ]
    for name, parameter in wanted.items():
        key = f"{above}{name}"
        if name in given:
            value, found = _checked(key, given[name], annotations[name])
            arguments |= {} if found else {name: value}
            problems += found
        elif parameter.default is parameter.empty:
            problems.append(Problem(key, f"'{key}' is missing"))
    return arguments, problems


def _checked(key: str, value: Any, annotation: Any) -> tuple[Any, list[Problem]]:
    """Return a YAML value as its annotation has it, or as it is with what is wrong with it."""
    records = [option for option in alternatives(annotation) if is_record(option)]
    if isinstance(value, dict) and records:
        fields, problems = check_arguments(records[0], value, above=f"{key}.")
        return (value, problems) if problems else (records[0](**fields), [])
    try:
        return convert(value, annotation), []
    except TypeError as error:
        return value, [Problem(key, f"'{key}' {error}")]


def convert(value: Any, annotation: Any) -> Any:
    """Return a YAML value as its annotation has it. Raises TypeError with what was wanted."""
    for option in alternatives(annotation):
        accepted, result = _as(value, option)
        if accepted:
            return result
    raise TypeError(f"must be {_words(annotation)}, not {value!r}")


def _as(value: Any, wanted: Any) -> tuple[bool, Any]:
    """Return whether a value fits a type, which is no union, and the value as that type."""
    origin, inner = typing.get_origin(wanted) or wanted, typing.get_args(wanted)
    if is_capability(wanted) and origin is not list:
        return isinstance(value, str), value
    if origin in {list, Sequence}:
        return _as_list(value, inner or (Any,))
    if origin in {dict, Mapping}:
        return _as_dict(value, inner or (Any, Any))
    if is_record(wanted) and isinstance(value, dict):
        fields, problems = check_arguments(wanted, value)
        return (False, value) if problems else (True, wanted(**fields))
    if origin is typing.Literal:
        return any(value == one and type(value) is type(one) for one in inner), value
    return _as_scalar(value, wanted)


def _as_scalar(value: Any, wanted: Any) -> tuple[bool, Any]:
    if wanted is Any:
        return True, value
    if wanted is float and type(value) is int:
        return True, float(value)
    if wanted is Path and isinstance(value, str):
        return True, Path(value)
    return type(value) is wanted, value


def _as_list(value: Any, inner: tuple[Any, ...]) -> tuple[bool, Any]:
    if not isinstance(value, list):
        return False, value
    items = [_as_one_of(item, inner[0]) for item in value]
    return all(ok for ok, _ in items), [item for _, item in items]


def _as_dict(value: Any, inner: tuple[Any, ...]) -> tuple[bool, Any]:
    if not isinstance(value, dict):
        return False, value
    keys = [_as_one_of(key, inner[0]) for key in value]
    values = [_as_one_of(item, inner[1]) for item in value.values()]
    accepted = all(ok for ok, _ in (*keys, *values))
    return accepted, dict(zip((k for _, k in keys), (v for _, v in values), strict=True))


def _as_one_of(value: Any, annotation: Any) -> tuple[bool, Any]:
    found = (_as(value, option) for option in alternatives(annotation))
    return next(((ok, result) for ok, result in found if ok), (False, value))


def _words(annotation: Any) -> str:
    if is_capability(annotation):
        return "the name of a model"
    return " or ".join(_word(option) for option in alternatives(annotation))


def _word(option: Any) -> str:
    """Return what a type of a YAML value is called in a message."""
    if is_record(option):
        return f"a mapping of {', '.join(parameters(option)) or 'nothing'}"
    if typing.get_args(option):
        return str(option)
    name = getattr(option, "__name__", str(option))
    return "null" if name == "NoneType" else name


def _nearest(key: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(str(key), list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known) or 'none'}"
