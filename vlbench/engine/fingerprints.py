"""Adapters made and known: from a model's line to an object, and what it computes with."""

from __future__ import annotations

import ast
import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import vlbench
from vlbench.digests import digest, source_digest, source_text

# What a module keeps its weights and its parts in, which are counted by themselves.
APART = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}

# What any adapter computes with, imported by it or not.
ALWAYS = ("torch", "numpy", "PIL")


class Known(NamedTuple):
    """A live adapter and what it is known by, for the store and for a row's provenance."""

    adapter: Any
    source: str
    weights: str
    identity: str
    libraries: Mapping[str, str]


def know(
    adapter: Any, params: Mapping[str, Any] | None, device: torch.device, dtype: torch.dtype
) -> Known:
    """Return a live adapter with its digests; `identity` is what its outputs are stored under.

    `params` are the arguments that vlbench made it with; None for an object made by hand. Such an
    object has no identity where nothing vouches for it, that is where its attributes cannot be
    digested and it has no `fingerprint`: its outputs are never stored.
    """
    code = source_digest(type(adapter))
    source = f"{type(adapter).__qualname__} {code or 'of no file'}"
    weights = weights_digest(adapter)
    libraries = library_versions([type(adapter)])
    known_by = None if code is None else _own_attributes(adapter) if params is None else params
    ours = [vlbench.__version__, _own_modules(type(adapter))]
    parts = [source, known_by, weights, str(dtype), device.type, libraries, ours]
    identity = "" if known_by is None else digest(parts)
    return Known(adapter, source, weights, identity, libraries)


def contents(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with what each path holds in place of the path."""
    return {key: _each(_as_path, value) for key, value in params.items()}


def shown_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a row shows them: no local path, only file names."""
    return {key: _each(_shown, value) for key, value in params.items()}


def shown_weights(params: Mapping[str, Any], weights: str) -> str:
    """Return what a row says of the weights: their digest, or `random:<seed>`."""
    random = params.get("weights") == "random"
    return f"random:{params.get('init_seed', 0)}" if random else weights


def weights_digest(adapter: Any) -> str:
    """Return the adapter's own `fingerprint`, or the digest of all its tensors and arrays."""
    fingerprint = getattr(adapter, "fingerprint", None)
    if fingerprint is not None:
        return digest(fingerprint() if callable(fingerprint) else fingerprint)
    return digest(dict(_weights("", getattr(adapter, "__dict__", {}))))


def library_versions(things: Iterable[Any]) -> dict[str, str]:
    """Return the version of each installed library that the things' files import, and torch's."""
    names = set(ALWAYS)
    for thing in things:
        names |= {name.partition(".")[0] for name in _imports(source_text(thing))}
    found = {name: _version(name) for name in sorted(names)}
    return {name: version for name, version in found.items() if version}


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """Return a value changed, or each of those in a list or a mapping."""
    if isinstance(value, dict):
        return {key: _each(change, item) for key, item in value.items()}
    return [_each(change, item) for item in value] if isinstance(value, list) else change(value)


def _as_path(value: Any) -> Any:
    """Return a text as a path where it is written like one and something lies there."""
    if isinstance(value, str) and value:
        with suppress(OSError):  # too long to be a path
            return Path(value) if Path(value).exists() else value
    return value if not isinstance(value, Path) or value.exists() else str(value)


def _shown(value: Any) -> Any:
    local = isinstance(value, str) and (Path(value).is_absolute() or value[:1] in {"~", "."})
    written = local or isinstance(value, Path) or isinstance(_as_path(value), Path)
    return Path(value).name if written else value


def _own_attributes(adapter: Any) -> dict[str, Any] | None:
    """Return what an object holds besides weights, where all of it can be digested, or else None.

    Of a module that is its make: what its parts hold, and the source of their classes.
    """
    if getattr(adapter, "fingerprint", None) is not None:
        return {}
    if any(vars(kind).get("__slots__") for kind in type(adapter).__mro__):
        return None
    held = getattr(adapter, "__dict__", None)
    try:
        # A device is counted by its kind alone, by who asks.
        rest = {k: v for k, v in (held or {}).items() if not isinstance(v, torch.device)}
        made = {name: _make(value) for name, value in rest.items()}
        digest(made)
    except TypeError:
        return None
    return None if held is None else made


def _make(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        return [repr(value), [_part(module) for module in value.modules()]]
    if isinstance(value, type):
        return _code(value)
    return str(value) if isinstance(value, torch.dtype) else value


def _part(module: torch.nn.Module) -> Any:
    held = {name: _make(value) for name, value in vars(module).items() if name not in APART}
    return [_code(type(module)), held]


def _code(kind: type) -> str:
    """Return a class's name with the digest of its file. Raises TypeError without a file."""
    code = source_digest(kind)
    if code is None:
        raise TypeError(f"cannot digest {kind.__qualname__}, which no file defines")
    return f"{kind.__qualname__} {code}"


def _weights(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every tensor and array below a value, under its path."""
    if isinstance(value, torch.nn.Module):
        value = dict([*value.named_parameters(), *value.named_buffers()])
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _weights(f"{path}.{name}", inner)
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _weights(f"{path}.{i}", inner)
    elif isinstance(value, torch.Tensor | np.ndarray):
        yield path, value


def _imports(source: str) -> Iterator[str]:
    """Yield the modules that a source file imports, or imports names from, and `module.name`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _own_modules(adapter: type) -> dict[str, str | None]:
    """Return the source digest of each module of vlbench that an adapter's file imports."""
    named = {name for name in _imports(source_text(adapter)) if name.startswith("vlbench.")}
    return {name: source_digest(sys.modules[name]) for name in sorted(named) if name in sys.modules}


def _version(package: str) -> str:
    """Return an installed package's version; empty for the standard library and vlbench."""
    if package in sys.stdlib_module_names or package == "vlbench":
        return ""
    distributions = _distributions().get(package, [])
    return importlib.metadata.version(distributions[0]) if distributions else ""


@cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()
