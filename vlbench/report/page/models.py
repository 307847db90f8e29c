"""Pages of models: scores, missing capabilities, catalog entries, and provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vlbench.boards.privacy import cleaned, shown
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.listed_capabilities import capabilities_of
from vlbench.catalog.specs import ModelSpec
from vlbench.report.page.sections import Section
from vlbench.report.table import Entry
from vlbench.results import Result

# The entries of a row's provenance that are shown as they are. Data are listed below the tables.
PLAIN = ("vlbench", "adapter", "weights", "dtype")
MAPPINGS = ("params", "companions")


class ModelBox(NamedTuple):
    """A model: its spec in a models.yaml, if any, its entries, and its rows without scores.

    `card` is the id of the box that opens beside its name in a table.
    """

    name: str
    card: str
    spec: ModelSpec | None
    entries: Sequence[tuple[Section, Entry]]
    unscored: Sequence[Result]

    @property
    def is_control(self) -> bool:
        """Whether it ignores its inputs."""
        return any(entry.row.is_control for _, entry in self.entries)

    @property
    def capabilities(self) -> list[str]:
        """What the model can do, as far as its source code shows."""
        return (capabilities_of(self.spec) if self.spec else None) or []

    @property
    def reasons(self) -> dict[tuple[str, str], list[str]]:
        """The tasks without a score by status and reason, the failed ones first."""
        tasks_by_reason: dict[tuple[str, str], list[str]] = {}
        for row in sorted(self.unscored, key=lambda row: (row.status, row.reason)):
            tasks_by_reason.setdefault((row.status, row.reason), []).append(row.task)
        return tasks_by_reason

    @property
    def facts(self) -> dict[str, str]:
        """What the catalog contains about the model, and which parameters were overridden."""
        name, bracket, rest = self.name.partition("[")
        changed = {"overridden": rest.removesuffix("]")} if name and bracket else {}
        if self.spec is None:
            return changed | {"catalog": "not listed in any models.yaml that vlbench reads here"}
        spec, values = self.spec, self.spec.document.values[self.spec.name]
        texts = {
            "paper": spec.paper,
            "weights": spec.weights,
            "adapter": spec.adapter,
            "arguments": _as_typed(shown(spec.params)),
            "parameters": f"{spec.parameters:,}" if spec.parameters else "",
            "released": spec.released,
            "training data": ", ".join(spec.training_data),
            "training images": "" if spec.training_images is None else f"{spec.training_images:,}",
            "regions": _as_typed(spec.regions),
            "capabilities": ", ".join(self.capabilities),
            "unavailable": spec.unavailable,
            "seen in training": str(values.get("x-seen", "unknown")),
        }
        return changed | {label: cleaned(text) for label, text in texts.items() if text}

    @property
    def provenance(self) -> list[tuple[str, str, str]]:
        """The provenance of its rows: label, text, and the tasks if not all share it."""
        tasks: dict[tuple[str, str], list[str]] = {}
        libraries: dict[str, list[str]] = {}
        for section, entry in self.entries:
            for fact in _facts(entry.row):
                tasks.setdefault(fact, []).append(section.name)
            versions = entry.row.provenance.get("libraries")
            for library, version in versions.items() if isinstance(versions, dict) else ():
                libraries.setdefault(f"{library} {version}", []).append(section.name)
        together: dict[tuple[str, ...], list[str]] = {}
        for library, names in sorted(libraries.items()):
            together.setdefault(tuple(names), []).append(library)
        tasks |= {("libraries", ", ".join(same)): list(on) for on, same in together.items()}
        return [
            (*fact, "" if len(names) == len(self.entries) else ", ".join(dict.fromkeys(names)))
            for fact, names in tasks.items()
        ]


def models_of(sections: Sequence[Section], catalog: Catalog) -> list[ModelBox]:
    """Return the models of all boards and summaries, by name; summaries add no scores."""
    entries: dict[str, list[tuple[Section, Entry]]] = {}
    unscored: dict[str, list[Result]] = {}
    for section in sections:
        for row in section.board.results:
            entries.setdefault(row.model, [])
            if row.status != "ok" and not section.is_summary:
                unscored.setdefault(row.model, []).append(row)
        for entry in (e for table in section.tables for e in table.entries):
            if not section.is_summary:
                entries[entry.row.model].append((section, entry))
    models = catalog.models
    return [
        ModelBox(name, f"c{i}", models.get(name.partition("[")[0]), pairs, unscored.get(name, []))
        for i, (name, pairs) in enumerate(sorted(entries.items()))
    ]


def _facts(row: Result) -> Iterator[tuple[str, str]]:
    for key in (*PLAIN, *MAPPINGS):
        value = row.provenance.get(key)
        if value:
            yield key, _as_typed(value) if key in MAPPINGS else str(value)


def _as_typed(value: Any) -> str:
    """Return arguments as they are written on the command line."""
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(f"{key}={_plain(part)}" for key, part in value.items())


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
