"""Adapters made and known: from a model's line to an object, and what it computes with."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from vlbench.digests import digest, source_digest

# What any adapter computes with, imported by it or not.
ALWAYS = ("torch", "numpy")


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
    source = f"{type(adapter).__qualname__} {source_digest(type(adapter))}"
    weights = weights_digest(adapter)
    libraries = library_versions([type(adapter)])
    known_by = _plain_attributes(adapter) if params is None else params
    parts = [source, known_by, weights, str(dtype), device.type, libraries]
    identity = "" if known_by is None else digest(parts)
    return Known(adapter, source, weights, identity, libraries)


def contents(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with what each path holds in place of the path."""
    return {key: _as_path(value) for key, value in params.items()}


def shown_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a row shows them: no local path, only file names."""
    return {k: v.name if isinstance(v, Path) else v for k, v in contents(params).items()}


def shown_weights(params: Mapping[str, Any], weights: str) -> str:
    """Return what a row says of the weights: their digest, or `random:<seed>`."""
    random = params.get("weights") == "random"
    return f"random:{params.get('init_seed', 0)}" if random else weights


def weights_digest(adapter: Any) -> str:
    """Return the adapter's own `fingerprint`, or the digest of all its tensors and arrays."""
    fingerprint = getattr(adapter, "fingerprint", None)
    if fingerprint is not None:
        return digest(fingerprint() if callable(fingerprint) else fingerprint)
    return digest(dict(_weights("", vars(adapter)) if hasattr(adapter, "__dict__") else ()))


def library_versions(things: Iterable[Any]) -> dict[str, str]:
    """Return the version of each installed library that the things' files import, and torch's."""
    names = set(ALWAYS)
    for thing in things:
        file = inspect.getsourcefile(thing)
        names |= set(_imports(Path(file).read_text("utf-8"))) if file else set()
    found = {name: _version(name) for name in sorted(names)}
    return {name: version for name, version in found.items() if version}


def _as_path(value: Any) -> Any:
    """Return a text as a path where it is written like one and something lies there."""
    looks = isinstance(value, str) and ("/" in value or Path(value).suffix)
    return Path(value) if looks and Path(value).exists() else value


def _plain_attributes(adapter: Any) -> dict[str, Any] | None:
    """Return an object's attributes, weights apart, where all can be digested, or else None."""
    if hasattr(adapter, "fingerprint"):
        return {}
    rest = {
        name: value
        for name, value in getattr(adapter, "__dict__", {}).items()
        if not isinstance(value, torch.nn.Module | torch.device | torch.dtype)
    }
    try:
        digest(rest)
    except TypeError:
        return None
    return rest


def _weights(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every tensor and array below a value, under its path."""
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _weights(f"{path}.{name}", inner)
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _weights(f"{path}.{i}", inner)
    elif isinstance(value, torch.Tensor | np.ndarray):
        yield path, value


def _imports(source: str) -> Iterator[str]:
    """Yield the top-level names of the packages that a source file imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _version(package: str) -> str:
    """Return an installed package's version; empty for the standard library and vlbench."""
    if package in sys.stdlib_module_names or package == "vlbench":
        return ""
    stated = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(stated, str):
        return stated
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
