"""Pages of models: what each is, where its numbers come from, all its scores, what it cannot do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.offers import capabilities_of
from vlbench.catalog.specs import ModelSpec
from vlbench.leaderboard.comparison.leaders import standing
from vlbench.leaderboard.page.tables import Shelf, primary_label, row_ids
from vlbench.leaderboard.page.values import (
    NO_SCORE,
    Fact,
    Model,
    ModelScore,
    Other,
    Reason,
    ScoreGroup,
    conditions,
    figure_of,
    model_id,
)
from vlbench.leaderboard.rows import ties_mark
from vlbench.leaderboard.table import interval
from vlbench.planning.privacy import cleaned, shown
from vlbench.results import Result, Score, matching

# What a row's provenance holds that is shown as it is. The data stand below the tables.
PLAIN = ("vlbench", "adapter", "weights", "dtype")
MAPPINGS = ("params", "companions")


def facts_of(rows: Mapping[str, Sequence[Result]]) -> list[Fact]:
    """Return the provenance of a model's ok rows, which are given by task."""
    places: dict[tuple[str, str], list[str]] = {}
    libraries: dict[str, list[str]] = {}
    for task, results in rows.items():
        for row in results:
            for fact in _row_facts(row):
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


def _row_facts(row: Result) -> Iterator[tuple[str, str]]:
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


def models_of(
    shelves: Sequence[Shelf], catalog: Catalog, cards: Mapping[str, str], *, brief: bool
) -> list[Model]:
    """Return the page of each model by name; `brief` leaves out all but the primary scores."""
    rows: dict[str, list[tuple[Shelf, Result, str]]] = {name: [] for name in sorted(cards)}
    labels = {shelf.name: primary_label(shelf.board) for shelf in shelves}
    for shelf in shelves:
        ids = row_ids(shelf.board, shelf.name)
        for row in shelf.board.results:
            rows[row.model].append((shelf, row, ids.get((row.model, row.comparable), "")))
    return [
        _model(name, found, catalog.models.get(name.partition("[")[0]))._replace(
            card=cards[name], groups=_groups(found, labels, brief=brief)
        )
        for name, found in rows.items()
    ]


def _model(name: str, found: Sequence[tuple[Shelf, Result, str]], spec: ModelSpec | None) -> Model:
    """Return the page of a model without its scores."""
    results: dict[str, list[Result]] = {}
    for shelf, row, _ in found:
        if row.status == "ok":
            results.setdefault(shelf.name, []).append(row)
    return Model(
        id=model_id(name),
        card="",
        name=name,
        facts=list(_facts(name, spec)),
        provenance=facts_of(results),
        capabilities=(capabilities_of(spec) if spec else None) or [],
        groups=[],
        reasons=_reasons(found),
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


def _groups(
    rows: Sequence[tuple[Shelf, Result, str]], labels: Mapping[str, str], *, brief: bool
) -> list[ScoreGroup]:
    groups: dict[str, list[ModelScore]] = {}
    for shelf, row, id_ in rows:
        if row.status != "ok":
            continue
        found = matching(row.scores, shelf.board.primary)
        score = found[0] if found else None
        groups.setdefault(labels[shelf.name], []).append(
            ModelScore(
                task=shelf.name,
                href=id_,
                score=figure_of(score.value, score.unit) + ties_mark(row) if score else NO_SCORE,
                interval=interval(score) if score else "",
                standing=standing(row.model, shelf.leaders.get(row.comparable)),
                others=[] if brief else [_other(one) for one in row.scores if one is not score],
            )
        )
    return [ScoreGroup(label, scores) for label, scores in groups.items()]


def _other(score: Score) -> Other:
    percent = " %" if score.unit == "fraction" else ""
    return Other(
        metric=score.metric,
        at=conditions(score.at),
        value=figure_of(score.value, score.unit) + percent,
        interval=interval(score),
        n=f"{score.n:,}",
        chance="" if score.chance is None else figure_of(score.chance, score.unit),
    )


def _reasons(found: Sequence[tuple[Shelf, Result, str]]) -> list[Reason]:
    """Return why a model has no score on tasks, the failed ones first."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for shelf, row, _ in found:
        if row.status != "ok":
            reasons.setdefault((row.status, row.reason), []).append(shelf.name)
    return [Reason(status, why, tasks) for (status, why), tasks in sorted(reasons.items())]
