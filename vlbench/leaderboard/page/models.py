"""Pages of models: what each is, where its numbers come from, all its scores, what it cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.offers import capabilities_of
from vlbench.catalog.specs import ModelSpec
from vlbench.leaderboard.comparison.standing import standing
from vlbench.leaderboard.page.columns import primary_label
from vlbench.leaderboard.page.names import (
    NO_SCORE,
    chance_of,
    conditions,
    figure_of,
    interval_of,
    model_id,
)
from vlbench.leaderboard.page.provenance import facts_of, overridden
from vlbench.leaderboard.page.tables import Shelf, row_ids
from vlbench.leaderboard.page.values import Fact, Model, ModelScore, Other, Reason, ScoreGroup
from vlbench.planning.privacy import cleaned, shown
from vlbench.results import Result, Score, matching


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
                score=figure_of(score.value, score.unit) if score else NO_SCORE,
                interval=interval_of(score) if score else "",
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
        interval=interval_of(score),
        n=f"{score.n:,}",
        chance=chance_of(score),
    )


def _reasons(found: Sequence[tuple[Shelf, Result, str]]) -> list[Reason]:
    """Return why a model has no score on tasks, the failed ones first."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for shelf, row, _ in found:
        if row.status != "ok":
            reasons.setdefault((row.status, row.reason), []).append(shelf.name)
    return [Reason(status, why, tasks) for (status, why), tasks in sorted(reasons.items())]
