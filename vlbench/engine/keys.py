"""Keys of stored values: digests of all that the values depend on.

A key is None where a value must not be stored: it depends on a model that nothing identifies, or on
code that no file holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlbench.data.records import Column
from vlbench.digests import digest
from vlbench.identity import code_digest

# What each live adapter is known by, under its `id`; empty where nothing identifies it.
Identities = Mapping[int, str]


def features_key(identity: str, compute: Any, name: str, column: Column) -> str | None:
    """Return the key of the features that a model's method computes of a stored column."""
    return _key([identity, *_codes(compute, column)], [name, column.key])


def map_key(
    functions: Sequence[Any], columns: Sequence[Column], key: Mapping[str, Any], known: Identities
) -> str | None:
    """Return the key of the outputs of functions for the selected rows of columns."""
    values, models = _parts(key, known)
    selected = [[column.key, list(column.rows)] for column in columns]
    return _key([*models, *_codes(*functions, *columns)], [values, selected])


def once_key(build: Any, key: Mapping[str, Any], known: Identities) -> str | None:
    """Return the key of a value that is built once."""
    values, models = _parts(key, known)
    return _key([*models, *_codes(build)], values)


def _key(required: Sequence[str | None], parts: Any) -> str | None:
    return digest([list(required), parts]) if all(required) else None


def _parts(key: Mapping[str, Any], known: Identities) -> tuple[dict[str, Any], list[str]]:
    """Return a key with the identity of each model in place of the model, and the identities."""
    models = {name: known[id(value)] for name, value in key.items() if id(value) in known}
    return {**key, **models}, list(models.values())


def _codes(*things: Any) -> Iterator[str | None]:
    """Yield the digest of the code of functions, and of what makes the values of columns."""
    for thing in things:
        if isinstance(thing, Column):
            yield from _codes(thing.stored, *getattr(thing.stored, "__dict__", {}).values())
        else:
            yield code_digest(thing)
