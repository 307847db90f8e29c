"""What the values of a YAML file may be: known keys, their types, and conditions of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from vlbench.catalog.strict_yaml import Document


def checked(
    document: Document,
    values: Mapping[str, Any],
    allowed: Mapping[str, tuple[type, ...]],
    path: tuple[str, ...],
) -> tuple[dict[str, Any], list[str]]:
    """Return the values without x- keys, and each unknown key and wrong type."""
    problems = []
    kept = {key: value for key, value in values.items() if not str(key).startswith("x-")}
    for key, value in kept.items():
        where = document.where(*path, str(key))
        if key not in allowed:
            near = nearest(key, allowed)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(allowed)}"
            problems.append(f"{where}: unknown '{key}'; {hint}")
        elif type(value) not in allowed[key]:
            names = " or ".join(kind.__name__ for kind in allowed[key])
            problems.append(f"{where}: '{key}' must be {names}, not {value!r}")
    return kept, problems


def nearest(key: Any, allowed: Iterable[str]) -> list[str]:
    """Return the allowed key that an unknown one probably means; none where it is like no other."""
    return get_close_matches(str(key), list(allowed), n=1)


def is_at(at: Any) -> bool:
    """Return whether conditions are texts or numbers by name."""
    pairs = at.items() if isinstance(at, dict) else [(None, at)]
    return all(isinstance(k, str) and isinstance(v, str | int | float) for k, v in pairs)
