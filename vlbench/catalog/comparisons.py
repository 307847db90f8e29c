"""The comparisons that a claim is: their sides, and what `each` lists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from vlbench.catalog.strict_yaml import Document
from vlbench.catalog.values import checked, is_at
from vlbench.errors import SpecError

SIDE_KEYS: dict[str, tuple[type, ...]] = {
    "model": (str, list),
    "task": (str, list),
    "metric": (str,),
    "at": (dict, list),
    "floor": (str,),
}
EACH_KEYS: dict[str, tuple[type, ...]] = {"model": (str, list), "task": (list,), "at": (list,)}

# Names for lists of models.
Lists = Mapping[str, Sequence[str]]

Place = tuple[str, ...]


@dataclass(frozen=True)
class Side:
    """A score, or the mean of several: every model on every task under every condition."""

    label: str
    models: Sequence[str]
    tasks: Sequence[str]
    metric: str
    at: Sequence[Mapping[str, Any]]
    floor: str = ""


@dataclass(frozen=True)
class Comparison:
    """What must lie from `low` to `high`: the score of one side, or its lead over the other.

    A lead must be above `low`. `case` says which of the values it is that `each` lists.
    """

    case: str
    sides: Sequence[Side]
    low: float
    high: float = math.inf


def cases_of(
    document: Document, place: Place, each: Mapping[str, Any], lists: Lists
) -> list[dict[str, Any]]:
    """Return every combination of the values that `each` lists. Raises SpecError."""
    values, problems = checked(document, each, EACH_KEYS, place)
    empty = [
        f"{document.where(*place, key)}: '{key}' is empty" for key in values if not values[key]
    ]
    if problems or empty:
        raise SpecError("\n".join(problems + empty))
    if "model" in values:
        values["model"] = _models(values["model"], lists)
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def comparisons_of(
    document: Document,
    place: Place,
    values: Mapping[str, Any],
    case: Mapping[str, Any],
    lists: Lists,
) -> list[Comparison]:
    """Return the comparisons of one case of a claim; the last part of `place` is its relation.

    Raises SpecError.
    """
    where, relation = document.where(*place), place[-1]
    given, label = values[relation], _label(case)
    base = _joined({key: values[key] for key in SIDE_KEYS if key in values}, case)
    if relation == "within":
        if len(given) != 2 or not all(type(x) in {int, float} for x in given):
            raise SpecError(f"{where}: 'within' is [a number, a number], not {given!r}")
        if given[0] > given[1]:
            raise SpecError(f"{where}: 'within' is [low, high]; {given[0]} is above {given[1]}")
        return [Comparison(label, [_side(document, place, base, {}, lists)], *given)]
    if len(given) < 2 or (relation == "greater" and len(given) > 2):
        wanted = "two sides" if relation == "greater" else "two sides or more"
        raise SpecError(f"{where}: '{relation}' has {wanted}, not {len(given)}")
    sides = [_side(document, (*place, str(i)), base, one, lists) for i, one in enumerate(given)]
    return [Comparison(label, pair, values.get("by", 0)) for pair in pairwise(sides)]


def _side(
    document: Document, place: Place, base: Mapping[str, Any], given: Any, lists: Lists
) -> Side:
    where = document.where(*place)
    if not isinstance(given, dict):
        raise SpecError(f"{where}: a side is {{model: ..., at: ...}}, not {given!r}")
    own, problems = checked(document, given, SIDE_KEYS, place)
    whole = _joined(base, own)
    for key in ("model", "task", "metric"):
        names = _list(whole.get(key) or [])
        if not names:
            problems.append(f"{where}: '{key}' is missing, here and beside the claim")
        problems += [f"{where}: no {key}: {name!r}" for name in names if not isinstance(name, str)]
    wrong = [at for at in whole["at"] if not is_at(at)] if whole["at"] else [[]]
    problems += [f"{where}: no conditions: {at!r}" for at in wrong]
    if problems:
        raise SpecError("\n".join(problems))
    label = _label(own) or _label({"model": whole["model"]})
    models, tasks = _models(whole["model"], lists), _list(whole["task"])
    return Side(label, models, tasks, whole["metric"], whole["at"], whole.get("floor", ""))


def _joined(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both, the own ones first; conditions are those of both."""
    both = product(_list(base.get("at", {})), _list(own.get("at", {})))
    at = [{**a, **b} if isinstance(a, dict) and isinstance(b, dict) else b for a, b in both]
    return {**base, **own, "at": at}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _models(value: Any, lists: Lists) -> list[Any]:
    """Return the models that a name, or a list of them, stands for."""
    return [
        model
        for name in _list(value)
        for model in (lists.get(name, [name]) if isinstance(name, str) else [name])
    ]


def _label(own: Mapping[str, Any]) -> str:
    """Return what sets a side or a case apart, for a reader."""
    words = [
        ", ".join(f"{k} {v}" for k, v in part.items()) if isinstance(part, dict) else str(part)
        for key in SIDE_KEYS
        for part in _list(own.get(key, []))
    ]
    return f"{words[0]} to {words[-1]}" if len(words) > 4 else ", ".join(words)
