"""Pages of models: what each is, where its numbers come from, all its scores, what it cannot do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlbench.boards.privacy import cleaned, shown
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.listed_capabilities import capabilities_of
from vlbench.catalog.specs import ModelSpec
from vlbench.report.leaders import standing
from vlbench.report.page.tables import Shelf, primary_label, row_ids
from vlbench.report.page.values import (
    NO_SCORE,
    Fact,
    Model,
    ModelRow,
    ModelScore,
    Other,
    Reason,
    ScoreGroup,
    conditions,
    figure_of,
    model_id,
)
from vlbench.report.rows import ties_mark
from vlbench.report.table import interval
from vlbench.results import Result, Score, matching

# What a row's provenance holds that is shown as it is. The data stand below the tables.
PLAIN = ("vlbench", "adapter", "weights", "dtype")
MAPPINGS = ("params", "companions")


def model_rows(shelf: Shelf) -> list[ModelRow]:
    """Return what the rows of a board say of their models."""
    ids, label = row_ids(shelf.board, shelf.name), primary_label(shelf.board)
    return [
        ModelRow(
            model=row.model,
            task=shelf.name,
            status=row.status,
            reason=row.reason,
            facts=list(_row_facts(row)),
            libraries=[f"{k} {v}" for k, v in _mapping(row.provenance.get("libraries")).items()],
            label=label,
            score=_score(shelf, row, ids) if row.status == "ok" else None,
        )
        for row in shelf.board.results
    ]


def facts_of(rows: Sequence[ModelRow]) -> list[Fact]:
    """Return the provenance of a model's ok rows."""
    places: dict[tuple[str, str], list[str]] = {}
    libraries: dict[str, list[str]] = {}
    for row in rows:
        for label, text in row.facts:
            places.setdefault((label, text), []).append(row.task)
        for library in row.libraries:
            libraries.setdefault(library, []).append(row.task)
    together: dict[tuple[str, ...], list[str]] = {}
    for library, tasks in sorted(libraries.items()):
        together.setdefault(tuple(tasks), []).append(library)
    for same, names in together.items():
        places["libraries", ", ".join(names)] = list(same)
    return [
        Fact(label, text, "" if len(tasks) == len(rows) else ", ".join(dict.fromkeys(tasks)))
        for (label, text), tasks in places.items()
    ]


def overridden(model: str) -> str:
    """Return what was overridden in a model, which stands in brackets behind its name."""
    name, bracket, rest = model.partition("[")
    return rest.removesuffix("]") if name and bracket else ""


def _row_facts(row: Result) -> Iterator[tuple[str, str]]:
    for key in PLAIN:
        if row.provenance.get(key):
            yield key, str(row.provenance[key])
    for key in MAPPINGS:
        if row.provenance.get(key):
            yield key, _show_value(row.provenance[key])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _show_value(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{key}={_plain(part)}" for key, part in value.items())


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def models_of(
    rows: Sequence[ModelRow], names: Sequence[str], catalog: Catalog, *, brief: bool
) -> list[Model]:
    """Return the page of each model that is named; `brief` leaves out all but primary scores."""
    of: dict[str, list[ModelRow]] = {name: [] for name in names}
    for row in rows:
        of[row.model].append(row)
    return [
        _model(name, of[name], catalog.models.get(name.partition("[")[0]), brief=brief)._replace(
            card=f"c{i}"
        )
        for i, name in enumerate(names)
    ]


def _model(name: str, rows: Sequence[ModelRow], spec: ModelSpec | None, *, brief: bool) -> Model:
    """Return the page of a model; its card has no id yet."""
    groups: dict[str, list[ModelScore]] = {}
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.score:
            score = row.score._replace(others=()) if brief else row.score
            groups.setdefault(row.label, []).append(score)
        else:
            reasons.setdefault((row.status, row.reason), []).append(row.task)
    return Model(
        id=model_id(name),
        card="",
        name=name,
        facts=list(_facts(name, spec)),
        provenance=facts_of([row for row in rows if row.score]),
        capabilities=(capabilities_of(spec) if spec else None) or [],
        groups=[ScoreGroup(label, scores) for label, scores in groups.items()],
        # The failed ones first.
        reasons=[Reason(status, why, tasks) for (status, why), tasks in sorted(reasons.items())],
    )


def _facts(name: str, spec: ModelSpec | None) -> Iterator[Fact]:
    """Yield what the catalog says of a model, and what was overridden."""
    if overridden(name):
        yield Fact("overridden", overridden(name), "")
    if spec is None:
        yield Fact("catalog", "not listed in any models.yaml that vlbench reads here", "")
        return
    values = spec.document.values[spec.name]
    known = {
        "paper": spec.paper,
        "weights": spec.weights,
        "adapter": spec.adapter,
        "parameters": ", ".join(f"{key}={value}" for key, value in shown(spec.params).items()),
        "training images": "" if spec.training_images is None else f"{spec.training_images:,}",
        "regions": ", ".join(f"{key}={value}" for key, value in spec.regions.items()),
        "unavailable": spec.unavailable,
    }
    known = {label: text for label, text in known.items() if text}
    known["seen in training"] = str(values.get("x-seen", "unknown"))
    yield from (Fact(label, cleaned(text), "") for label, text in known.items())


def _score(shelf: Shelf, row: Result, ids: Mapping[tuple[str, str], str]) -> ModelScore:
    primary = matching(row.scores, shelf.board.primary)
    score = primary[0] if primary else None
    return ModelScore(
        task=shelf.name,
        href=ids[row.model, row.comparable],
        score=figure_of(score.value, score.unit) + ties_mark(row) if score else NO_SCORE,
        interval=interval(score) if score else "",
        standing=standing(row.model, shelf.leaders.get(row.comparable)),
        others=[_other(one) for one in row.scores if one is not score],
    )


def _other(score: Score) -> Other:
    percent = " %" if score.unit == "fraction" else ""
    return Other(
        metric=score.metric,
        at=conditions(score.at),
        value=figure_of(score.value, score.unit) + percent,
        interval=interval(score),
        n=f"{score.n:,}",
        chance=score.no_chance if score.chance is None else figure_of(score.chance, score.unit),
    )
