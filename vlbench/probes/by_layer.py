"""A probe at each layer of a model: scores per `layer`, and the score of a layer chosen beforehand.

All layers are computed in one pass, and one layer's features are in memory at a time. The score of
the best of many layers on a test set is biased upwards. If the data have a train split, the probe
runs once more at each layer with some train rows held out as its test rows: `..._best_layer` is the
test score of the layer that is best on these rows, with the same interval, floors and items, and a
note names the layer. No test row takes part in the choice, so that the interval needs no
correction. If there are no train rows to choose by, each half of the test rows is scored at the
layer that is best on the other half (`metrics.best_of_halves`), and the interval covers the choice.
Its bootstrap samples, which are the same for all models, are the score's `halves`, with which
`compare` tests two models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Literal, TypeVar, cast

import numpy as np

from vlbench.data.records import Data, draw_rows, same_images
from vlbench.engine import Engine
from vlbench.engine.layers import IMAGES, Layers, Tower, layers_of
from vlbench.errors import TooFewRows
from vlbench.metrics.best_of_halves import KEPT, best_of_halves
from vlbench.metrics.items import (
    credit_of,
    groups_of,
    has_items,
    items_as,
    join_items,
    join_outcomes,
)
from vlbench.metrics.scores import scored
from vlbench.results import Outcome, Score

# The layers that a task lists.
Asked = Literal["all"] | list[str] | None

BEST = "best_layer"

# At most this many train rows are held out to choose a layer.
HELD_OUT = 500

# If fewer choose it, the chosen layer may be worse than the best by as much as models differ.
FEW = 250
FEW_NOTE = (
    f"the best layer was chosen on fewer than {FEW} train rows: it may not be the best, and a "
    "comparison of two models compares the chosen layers"
)

Probe = TypeVar("Probe", bound=Callable[..., Outcome])
Found = TypeVar("Found")

# The outcome at each layer, in order of depth.
ByLayer = Mapping[str, Outcome]

# Data and options for the runs that choose a layer; later runs are used if rows are too few.
Trials = Iterable[tuple[Data, dict[str, Any]]]

# Counts that are sums over layers; others are the same at each.
SUMMED = ("ties", "choices")


def hold_out(data: Data, options: Mapping[str, Any]) -> Trials:
    """Yield data with half of the train rows as test rows; then with a quarter, and an eighth.

    At most HELD_OUT rows are held out, stratified by label, and drawn with the option `seed` (0 if
    there is none). Floors are not needed for the choice. Yields nothing if the data have no train
    split.
    """
    if "train" not in data.splits:
        return
    train, kept = data.splits["train"], {k: v for k, v in options.items() if k != "floors"}
    image = {row: i for i, rows in enumerate(same_images(train)) for row in rows}
    for part in (2, 4, 8):
        held = draw_rows(train, min(len(train) // part, HELD_OUT), options.get("seed", 0))
        # A probe trained on copies of held-out images would know these images.
        images = {image[row] for row in held}
        rest = [row for row in range(len(train)) if image[row] not in images]
        splits = {"train": train.select(rest), "test": train.select(held)}
        yield replace(data, splits=splits, expected={}), kept


def layered(
    tower_of: Callable[[Any], Tower] = lambda _: IMAGES,
    *,
    artifacts: bool = True,
    trials_of: Callable[[Data, Mapping[str, Any]], Trials] = hold_out,
) -> Callable[[Probe], Probe]:
    """Add the parameter `layers` to a probe: names of layers of a tower to score, or `all`.

    By default the output is scored. With `artifacts`, artifacts are kept per layer. `trials_of`
    returns the data and options of the runs that choose a layer. The probe raises CannotDo for a
    model without layers, and UnknownNameError for an unknown layer.
    """

    def decorate(probe: Probe) -> Probe:
        @wraps(probe)
        def run(model: Any, data: Any, engine: Engine, **options: Any) -> Outcome:
            option = options.pop("layers", None)
            if option is None:
                return probe(model, data, engine, **options)
            layer_names, tower = [option] if isinstance(option, str) else option, tower_of(model)
            names = layers_of(model, engine.name_of(model), layer_names, tower)
            layers = Layers(model, engine, names, tower)

            def at_each(data: Any, options: Mapping[str, Any]) -> ByLayer:
                outcomes = dict[str, Outcome]()
                for name in names:
                    at = layers.engine_at(name)
                    outcomes[name] = scored(probe(model, data, at, **options))
                    engine.trained = engine.trained or at.trained
                return outcomes

            outcomes = at_each(data, options)
            best = best_layers(outcomes, at_each, trials_of(data, options))
            joined = join_layers(outcomes, best)
            return joined if artifacts else replace(joined, artifacts={})

        return with_option(run, probe, "layers", Asked)

    return decorate


def with_option(run: Callable[..., Outcome], probe: Probe, name: str, kind: Any) -> Probe:
    """Return `run` with the signature of a probe and one more parameter, None by default."""
    of_probe = signature(probe)
    more = Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    whole: Any = run
    whole.__signature__ = of_probe.replace(parameters=[*of_probe.parameters.values(), more])
    whole.__annotations__ = {**probe.__annotations__, name: kind}
    return cast("Probe", whole)


def join_layers(outcomes: ByLayer, best: Outcome) -> Outcome:
    """Return the outcomes of layers as one, with the layer in each score's conditions, and `best`.

    `best` is the outcome of `best_layers`.
    """
    counts: Counter[str] = Counter()
    for outcome in outcomes.values():
        counts.update({name: outcome.counts.get(name, 0) for name in SUMMED})
    first, joined = next(iter(outcomes.values())), join_outcomes(outcomes, "layer")
    fixed = {name: n for name, n in first.counts.items() if name not in {*SUMMED, "n"}}
    return Outcome(
        scores=[*joined.scores, *best.scores],
        counts=fixed | dict(counts),
        artifacts={
            f"{artifact}_{number}": value
            for number, outcome in enumerate(outcomes.values())
            for artifact, value in outcome.artifacts.items()
        },
        notes=[*joined.notes, *best.notes],
        items=join_items([part.items for part in (joined, best) if part.items is not None]),
    )


def best_layers(
    outcomes: ByLayer, at_each: Callable[[Data, Mapping[str, Any]], ByLayer], trials: Trials
) -> Outcome:
    """Return the scores of the chosen layers, for fractions that have chance and items.

    Later trials run only if earlier trials have too few rows. Of equally good layers, the first is
    chosen.
    """
    first = next(iter(outcomes.values()))
    if len(outcomes) < 2 or not any(_has_best(first, score) for score in first.scores):
        return Outcome([])
    try:
        held_out = run_trials(at_each, trials)
    except TooFewRows as error:
        note = f"no best layer: too few train rows to hold some out: {error}"
        return Outcome([], notes=[note])
    return _at_best(outcomes, held_out) if held_out else _by_halves(outcomes)


def run_trials(at_each: Callable[[Data, Mapping[str, Any]], Found], trials: Trials) -> Found | None:
    """Return the outcomes of the first trial with enough rows; None if there are no trials.

    Raises the TooFewRows of the first trial if all trials have too few rows.
    """
    refused = None
    for data, options in trials:
        try:
            return at_each(data, options)
        except TooFewRows as error:
            refused = refused or error
    if refused:
        raise refused
    return None


def best_of(values: Mapping[str, Score]) -> str:
    """Return the layer with the best score; of equally good layers the first."""
    sign = -1 if next(iter(values.values())).lower_is_better else 1
    return max(values, key=lambda name: sign * values[name].value)


def _at_best(outcomes: ByLayer, held_out: ByLayer) -> Outcome:
    """Return each score at the layer at which it is best on held-out rows."""
    scores, tables, chosen = list[Score](), list[Any](), dict[tuple[str, str], list[str]]()
    first, tried = (next(iter(outcome.values())) for outcome in (outcomes, held_out))
    if [s.metric for s in first.scores] != [s.metric for s in tried.scores]:
        return Outcome([], notes=["no best layer: fewer train rows give other scores"])
    for i, score in enumerate(first.scores):
        if not _has_best(first, score):
            continue
        # Scores with other numbers of train rows have other conditions, but the same position.
        values = {name: outcome.scores[i] for name, outcome in held_out.items()}
        best = best_of(values)
        at_best, items = outcomes[best].scores[i], outcomes[best].items
        metric = f"{score.metric}_{BEST}"
        scores.append(replace(at_best, metric=metric))
        tables.append(items_as(items, at_best.metric, at_best.at, metric))
        where = f"{_conditions(score)} (n {values[best].n})"
        chosen.setdefault((best, where), []).append(score.metric)
    each = [f"{best} for {', '.join(of)}{where}" for (best, where), of in chosen.items()]
    notes = [f"best layers, chosen on held-out train rows: {'; '.join(each)}"]
    if any(score.n < FEW for score in tried.scores if _has_best(tried, score)):
        notes.append(FEW_NOTE)
    return Outcome(scores, notes=notes, items=join_items(tables))


def _by_halves(outcomes: ByLayer) -> Outcome:
    """Return each score over halves of its items, each half at the layer best on the other half."""
    scores, tables, notes = list[Score](), list[Any](), list[str]()
    names, of_layers = [*outcomes], [*outcomes.values()]
    for i, score in enumerate(of_layers[0].scores):
        if not _has_best(of_layers[0], score) or score.range or not score.higher_is_better:
            continue
        metric, at = f"{score.metric}_{BEST}", score.at
        earned = [credit_of(layer.items, score.metric, at) for layer in of_layers]
        examples, groups = earned[0][0], groups_of(earned[0][0])
        is_joint = any(layer.scores[i].halves for layer in of_layers)
        if is_joint or groups.max() < 1 or any(items.ids != examples.ids for items, _ in earned):
            notes.append(f"no {metric}: its items have no independent halves")
            continue
        halves = best_of_halves(np.stack([credit for _, credit in earned]), groups)
        parts = [*zip(halves.chosen, (halves.first, ~halves.first), strict=True)]
        floors = {
            name: sum(of_layers[k].scores[i].floors[name] * float(part.mean()) for k, part in parts)
            for name in score.floors
        }
        by_trial = np.nanmean(halves.credit, 1).tolist()
        scores.append(
            replace(
                score,
                metric=metric,
                floors=floors,
                draws=by_trial if score.draws else [],
                halves=halves.samples[:KEPT].tolist(),
                **halves.estimate._asdict(),
            )
        )
        for k, part in parts:
            ids = np.array(examples.ids)[part].tolist()
            tables.append(items_as(of_layers[k].items, score.metric, at, metric, ids))
        layers = " and ".join(names[k] for k in halves.chosen)
        notes.append(f"{metric}{_conditions(score)}: {layers}, each chosen on half of the items")
    return Outcome(scores, notes=notes, items=join_items(tables))


def _conditions(score: Score) -> str:
    return "".join(f", {key} {value}" for key, value in score.at.items())


def _has_best(outcome: Outcome, score: Score) -> bool:
    """Return whether a score has a best layer; a score without chance is over train rows."""
    is_fraction = score.unit == "fraction" and score.chance is not None
    return is_fraction and has_items(outcome.items, score.metric, score.at)
