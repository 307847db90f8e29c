"""Fingerprints of live adapters: the identity of their code, arguments and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from vlbench.boards.privacy import shown
from vlbench.code.identity import code_digest, source_digest
from vlbench.schema import map_leaves
from vlbench.system.digests import digest

# Attributes of a module with its weights and parts, which are digested separately.
APART = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}


class LiveModel(NamedTuple):
    """A live adapter with its source, the digest of its weights, and the identity of its outputs.

    The identity digests everything that its outputs depend on; it is empty if that is unknown.
    """

    adapter: Any
    source: str
    weights: str
    identity: str


def identified(
    adapter: Any, arguments: Mapping[str, Any] | None, device: torch.device, dtype: torch.dtype
) -> LiveModel:
    """Return a live adapter with its digests.

    `arguments` are the arguments with which vlbench made it; None for an object made by hand. Such
    an object has no identity if its attributes cannot be digested and it has no `fingerprint`, or
    if its model is on a server; its outputs are then never stored.
    """
    kind, weights = type(adapter), _weights_of(adapter)
    code = code_digest(kind)
    source = f"{kind.__qualname__} {source_digest(kind) or 'of no file'}"
    made_of = _own_attributes(adapter) if arguments is None else arguments
    made_of = None if arguments is None and is_served(kind) else made_of
    is_known = code is not None and made_of is not None
    parts = [kind.__qualname__, code, made_of, weights, str(dtype), device.type]
    return LiveModel(adapter, source, weights, digest(parts) if is_known else "")


def is_served(adapter: type) -> bool:
    """Return whether a server has an adapter's model, so that the weights are unknown.

    Such an adapter sets `is_served`, has the model's name on the server as `served`, and takes
    `served` and the server's `address` as arguments.
    """
    return bool(getattr(adapter, "is_served", False))


def _weights_of(adapter: Any) -> str:
    """Return the digest of an adapter's weights, or `served:<name>` if a server has them."""
    if is_served(type(adapter)):
        return f"served:{shown(adapter.served)}"
    recorded = "recorded " if hasattr(type(adapter), "replies") else ""
    return f"{recorded}{weights_digest(adapter)}"


def contents(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with each path as a Path, which is digested by its content."""
    return {key: map_leaves(value, lambda _, leaf: as_path(leaf)) for key, value in params.items()}


def weights_digest(adapter: Any) -> str:
    """Return the digest of the adapter's `fingerprint`, or of all its tensors and arrays."""
    fingerprint = getattr(adapter, "fingerprint", None)
    if fingerprint is not None:
        return digest(fingerprint() if callable(fingerprint) else fingerprint)
    return digest(dict(_weights("", getattr(adapter, "__dict__", {}))))


def as_path(value: Any) -> Any:
    """Return a string as a path if such a file or folder exists."""
    if isinstance(value, str) and value:
        with suppress(OSError):  # too long to be a path
            return Path(value) if Path(value).exists() else value
    return value if not isinstance(value, Path) or value.exists() else str(value)


def _own_attributes(adapter: Any) -> dict[str, Any] | None:
    """Return the attributes of an object besides weights, or None if one cannot be digested.

    For a module, these are its repr, the attributes of its parts, and the code of their classes.
    """
    if getattr(adapter, "fingerprint", None) is not None:
        return {}
    if any(vars(kind).get("__slots__") for kind in type(adapter).__mro__):
        return None
    held = getattr(adapter, "__dict__", None)
    try:
        # Devices are left out; `identified` adds the kind of the device.
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
    """Return a class's name with the digest of its code. Raises TypeError if no file defines it."""
    code = code_digest(kind)
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
