"""Where the numbers of a model come from, as facts that hold for all of its rows or for some."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlbench.leaderboard.page.values import Fact
from vlbench.results import Result

# What a row's provenance holds that is shown as it is. The data stand below the tables.
PLAIN = ("vlbench", "adapter", "weights", "dtype")
MAPPINGS = ("params", "companions")


def facts_of(rows: Mapping[str, Sequence[Result]]) -> list[Fact]:
    """Return the provenance of a model's ok rows, which are given by task."""
    places: dict[tuple[str, str], list[str]] = {}
    libraries: dict[str, list[str]] = {}
    for task, results in rows.items():
        for row in results:
            for fact in _facts(row):
                places.setdefault(fact, []).append(task)
            for name, version in _mapping(row.provenance.get("libraries")).items():
                libraries.setdefault(f"{name} {version}", []).append(task)
    together: dict[tuple[str, ...], list[str]] = {}
    for library, tasks in sorted(libraries.items()):
        together.setdefault(tuple(tasks), []).append(library)
    for same, names in together.items():
        places["libraries", ", ".join(names)] = list(same)
    everywhere = sum(len(results) for results in rows.values())
    return [
        Fact(label, text, "" if len(tasks) == everywhere else ", ".join(dict.fromkeys(tasks)))
        for (label, text), tasks in places.items()
    ]


def overridden(model: str) -> str:
    """Return what was overridden in a model, which stands in brackets behind its name."""
    name, bracket, rest = model.partition("[")
    return rest.removesuffix("]") if name and bracket else ""


def _facts(row: Result) -> Iterator[tuple[str, str]]:
    for key in PLAIN:
        if row.provenance.get(key):
            yield key, str(row.provenance[key])
    for key in MAPPINGS:
        if row.provenance.get(key):
            yield key, _shown(row.provenance[key])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{key}={_plain(part)}" for key, part in value.items())


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
