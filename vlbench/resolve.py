"""`module:name` -> object, and keyword arguments checked against its signature."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import types
import typing
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.capabilities import alternatives, is_capability
from vlbench.errors import SpecError

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

    `module.py` is looked up in the folders first and loaded from its path under a private name,
    `sys.path` unchanged; otherwise it is an ordinary import. Raises SpecError.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise SpecError(f"'{name}' is not of the form module:name")
    files = [folder / f"{module_name}.py" for folder in folders]
    file = next((file for file in files if file.is_file()), None)
    try:
        module = load_file(file) if file else importlib.import_module(module_name)
    except IMPORT_ERRORS as error:
        raise SpecError(
            f"'{module_name}' cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        near = get_close_matches(attribute, dir(module), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise SpecError(f"'{module_name}' has no '{attribute}'{hint}")
    return getattr(module, attribute)


def find_object(where: str, name: str, folders: Sequence[Path], package: str = "") -> Any:
    """Return what a file names: from its own source, or else from `package`."""
    module = name.partition(":")[0]
    beside = any((folder / f"{module}.py").is_file() for folder in folders)
    with blamed_on(where):
        return load_object(name if beside or "." in module else package + name, folders)


@contextmanager
def blamed_on(where: str) -> Iterator[None]:
    """Put file and line before the message of a SpecError."""
    try:
        yield
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from error


def load_file(file: Path) -> types.ModuleType:
    """Return a file loaded once as a module under a private name, so that pickling finds it."""
    path = file.resolve()
    name = f"_vlbench_{hashlib.sha256(bytes(path)).hexdigest()[:12]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotation of each parameter of a function, or of a class's `__init__`."""
    target = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    try:
        annotations = typing.get_type_hints(target)
    except (NameError, AttributeError, TypeError) as error:
        name = getattr(target, "__qualname__", repr(target))
        raise SpecError(
            f"{name}: an annotation of its signature does not resolve: {error}"
        ) from error
    names = [name for name in parameters(function) if name not in annotations]
    return annotations | dict.fromkeys(names, Any)


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters that can be given by name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise SpecError(f"{function!r} has no signature to check: {error}") from error
    return {name: p for name, p in found.items() if p.kind in named}


def check_arguments(
    function: Callable[..., Any], given: Mapping[str, Any], *, filled: Container[str] = ()
) -> tuple[dict[str, Any], list[Problem]]:
    """Return keyword arguments as the signature has them, and every problem with them.

    `filled` are the parameters that vlbench itself fills. An int is a float, a bool is no int,
    a text is a path where a path is wanted; a companion is a model's name or a list of names.
    """
    wanted = {n: p for n, p in parameters(function).items() if n not in filled}
    annotations = hints(function)
    arguments: dict[str, Any] = {}
    problems = [
        Problem(key, f"unknown '{key}'; {_nearest(key, wanted)}")
        for key in given
        if key not in wanted
    ]
    for name, parameter in wanted.items():
        if name in given:
            try:
                arguments[name] = convert(given[name], annotations[name])
            except TypeError as error:
                problems.append(Problem(name, f"'{name}' {error}"))
        elif parameter.default is parameter.empty:
            problems.append(Problem(name, f"'{name}' is missing"))
    return arguments, problems


def convert(value: Any, annotation: Any) -> Any:
    """Return a YAML value as its annotation has it. Raises TypeError with what was wanted."""
    for option in alternatives(annotation):
        accepted, result = _as(value, option)
        if accepted:
            return result
    raise TypeError(f"must be {_words(annotation)}, not {value!r}")


def _as(value: Any, wanted: Any) -> tuple[bool, Any]:
    """Return whether a value is of a type that is no union, and the value as that type."""
    origin, inner = typing.get_origin(wanted) or wanted, typing.get_args(wanted)
    if is_capability(wanted) and origin is not list:
        return isinstance(value, str), value
    if origin in {list, Sequence}:
        return _as_list(value, inner or (Any,))
    if origin in {dict, Mapping}:
        return _as_dict(value, inner or (Any, Any))
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
    names = [getattr(a, "__name__", str(a)) for a in alternatives(annotation)]
    plain = [
        str(a) if typing.get_args(a) else n
        for a, n in zip(alternatives(annotation), names, strict=True)
    ]
    return " or ".join("null" if name == "NoneType" else name for name in plain)


def _nearest(key: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(str(key), list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known) or 'none'}"
