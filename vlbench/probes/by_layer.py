"""A probe at each layer of a model: scores under `layer`, and the layer that half the items choose.

All layers are computed in one pass, and one layer's features are in memory at a time. The best of
many layers on a test set is better there than elsewhere: `..._best_layer` is the credit of each
half of the items (whole clusters, parted by a seed) at the layer that was best on the other half;
its interval is over items, not over trials.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Literal, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vlbench.engine import Engine
from vlbench.engine.layers import IMAGES, Layers, Tower, layers_of
from vlbench.metrics.intervals import clustered_fraction
from vlbench.metrics.items import Examples, Measured, join_items, under
from vlbench.results import Outcome, Score

# Which layers a task asks for.
Asked = Literal["all"] | list[str] | None

BEST = "best_layer"

Probe = TypeVar("Probe", bound=Callable[..., Outcome])

# Counts that are sums over layers; others are the same at each.
SUMMED = ("ties", "choices")


def each_layer(
    model: Any,
    engine: Engine,
    asked: Literal["all"] | list[str],
    probe: Callable[[Engine], Outcome],
    *,
    tower: Tower = IMAGES,
    seed: int = 0,
) -> Outcome:
    """Return what a probe finds at each layer that is asked for, in order of depth.

    The probe uses the method of the model's tower, by default that of its images, by the engine
    that it is given. Raises CannotDo for a model without layers, and UnknownNameError for a layer
    that it lacks.
    """
    wanted = [asked] if isinstance(asked, str) else asked
    names = layers_of(model, engine.name_of(model), wanted, tower)
    layers, outcomes = Layers(model, engine, names, tower), dict[str, Outcome]()
    for name in names:
        at = layers.engine_at(name)
        outcomes[name] = probe(at)
        engine.trained = engine.trained or at.trained
    return join_layers(outcomes, seed=seed)


def layered(
    tower_of: Callable[[Any], Tower] = lambda _: IMAGES, *, artifacts: bool = True
) -> Callable[[Probe], Probe]:
    """Let a probe with a parameter `layers` score each layer of a tower that is asked for.

    The probe itself need not read the parameter. Its artifacts are kept by layer, unless nothing
    reads them.
    """

    def decorate(probe: Probe) -> Probe:
        @wraps(probe)
        def run(model: Any, data: Any, engine: Engine, **options: Any) -> Outcome:
            layers = options.pop("layers", None)
            if layers is None:
                return probe(model, data, engine, **options)
            outcome = each_layer(
                model,
                engine,
                layers,
                lambda at: probe(model, data, at, **options),
                tower=tower_of(model),
            )
            return outcome if artifacts else replace(outcome, artifacts={})

        return cast("Probe", run)

    return decorate


def join_layers(outcomes: Mapping[str, Outcome], *, seed: int) -> Outcome:
    """Return the outcomes of layers as one, with the layer among each score's conditions."""
    counts: Counter[str] = Counter()
    for outcome in outcomes.values():
        counts.update({name: outcome.counts.get(name, 0) for name in SUMMED})
    first = next(iter(outcomes.values()))
    fixed = {name: n for name, n in first.counts.items() if name not in {*SUMMED, "n"}}
    notes = [f"{name}: {note}" for name, one in outcomes.items() for note in one.notes]
    tables = [under(x.items, {"layer": n}) for n, x in outcomes.items() if x.items is not None]
    best = _best_layers(outcomes, seed)
    items = [table for one in best if (table := one.items) is not None]
    return Outcome(
        scores=[
            *(
                replace(score, at={**score.at, "layer": name})
                for name, outcome in outcomes.items()
                for score in outcome.scores
            ),
            *(one.score for one in best),
        ],
        counts=fixed | dict(counts),
        artifacts={
            f"{artifact}_{number}": value
            for number, outcome in enumerate(outcomes.values())
            for artifact, value in outcome.artifacts.items()
        },
        notes=notes,
        items=join_items([*tables, *items]),
    )


def _best_layers(outcomes: Mapping[str, Outcome], seed: int) -> list[Measured]:
    """Return each fraction that has items, at the layer that the other half of them chooses."""
    tables = {name: one.items for name, one in outcomes.items() if one.items is not None}
    if len(tables) < len(outcomes) or len(outcomes) < 2:
        return []
    first = next(iter(outcomes.values()))
    chosen, one = [], next(iter(tables.values()), None)
    for score in first.scores:
        if score.unit != "fraction":
            continue
        earned = [_credit(table, score) for table in tables.values()]
        if one and all(earned) and len({tuple(each) for each in earned}) == 1:
            chosen.append(_chosen(score, earned, _examples(one, score), seed))
    return chosen


def _rows(table: pa.Table, score: Score) -> list[dict[str, Any]]:
    at = dict(score.at)
    return [
        row
        for row in table.select(["id", "digest", "cluster", "metric", "at", "credit"]).to_pylist()
        if row["metric"] == score.metric and json.loads(row["at"]) == at
    ]


def _credit(table: pa.Table, score: Score) -> dict[str, float]:
    """Return the mean credit over trials of each item of a score."""
    sums: dict[str, list[float]] = {}
    for row in _rows(table, score):
        sums.setdefault(row["id"], []).append(row["credit"])
    return {name: float(np.mean(values)) for name, values in sums.items()}


def _examples(table: pa.Table, score: Score) -> Examples:
    rows = {row["id"]: row for row in _rows(table, score)}
    digests, clusters = ([row[key] for row in rows.values()] for key in ("digest", "cluster"))
    names = [cluster or name for name, cluster in zip(rows, clusters, strict=True)]
    return Examples([*rows], digests, names)


def _chosen(
    score: Score, earned: Sequence[Mapping[str, float]], examples: Examples, seed: int
) -> Measured:
    """Return the mean credit of each half at the layer that is best on the other half."""
    table = np.array([[one[name] for name in examples.ids] for one in earned])
    clusters, places = np.unique(examples.clusters, return_inverse=True)
    half = np.random.default_rng(seed).permutation(len(clusters)) < len(clusters) // 2
    first: NDArray[np.bool_] = half[places]
    credit = np.empty(table.shape[1])
    for judged, choosing in ((first, ~first), (~first, first)):
        credit[judged] = table[int(table[:, choosing].mean(1).argmax())][judged]
    estimate = clustered_fraction(np.bincount(places, credit), np.bincount(places))
    best = Score(
        f"{score.metric}_{BEST}",
        at=score.at,
        n=len(credit),
        chance=score.chance,
        no_chance=score.no_chance,
        **estimate._asdict(),
    )
    return Measured(best, examples, credit)
