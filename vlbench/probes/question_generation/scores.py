"""Scores of the steps, with floors and items."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.intervals import (
    Estimate,
    Floats,
    estimate_of_sums,
    mean_of_seeds,
    ratio,
)
from vlbench.metrics.items import (
    STATISTICS,
    Examples,
    answers_in_words,
    item_table,
    join_items,
    trials,
)
from vlbench.probes.question_generation.inputs import AskedImages
from vlbench.probes.question_generation.measures import (
    DISTINCT,
    LEAVE_ONE_OUT,
    LENGTH,
    NOUN,
    SEEN,
    MeasuredSystem,
    pool_seeds,
    score_of,
)
from vlbench.results import Outcome, Score

# The floors of all steps, and the floors of some steps.
FREQUENT, NEAREST = "most_frequent_question", "nearest_caption"
ANOTHER, ANOTHER_CAPTION = "another_image", "another_caption"
UNTRAINED = "untrained_projection"

# The name of the difference between a step's CIDEr and a floor's CIDEr.
GAINS = {
    ANOTHER: "cider_gain_from_image",
    FREQUENT: "cider_gain_over_constant",
    NEAREST: "cider_gain_over_nearest_caption",
}

# Why a score has neither chance level nor floor.
NO_CHANCE = {
    "questions": "describes the questions: a higher value is neither better nor worse",
    "people": "people's rating, which the steps are compared with",
}

SIMILARITY = "cls_similarity"

# If there are more scores or items, similarity is scored only at the last layer.
MOST_SCORES, MOST_ITEMS = 200, 9_000_000


class MetricForm(NamedTuple):
    """The unit and bounds of a metric, and whether higher is better."""

    unit: str
    low: float
    high: float
    higher_is_better: bool = True


FRACTION = MetricForm("fraction", 0.0, 1.0)
FORMS = {
    "cider": MetricForm("CIDEr", 0.0, 10.0),
    LEAVE_ONE_OUT: MetricForm("CIDEr", 0.0, 10.0),
    **dict.fromkeys(GAINS.values(), MetricForm("CIDEr", -10.0, 10.0)),
    SEEN: MetricForm("fraction", 0.0, 1.0, higher_is_better=False),
    LENGTH: MetricForm("words", 0.0, math.inf),
    "cls_similarity": MetricForm("cosine", -1.0, 1.0),
}


def find_form(metric: str) -> MetricForm:
    """Return the form of a metric; its `_ptb` variant has the same form."""
    return FORMS.get(metric.removesuffix("_ptb"), FRACTION)


def scores_of(measured: Sequence[MeasuredSystem]) -> list[Score]:
    """Return the scores of each step, with the floors of all steps and of the step."""
    common = {entry.system.floor: entry for entry in measured if not entry.system.step}
    scores: list[Score] = []
    for entry in measured:
        step, floor, _ = entry.system
        if step and not floor:
            own = {o.system.floor: o for o in measured if o.system.step == step and o.system.floor}
            floors = {} if step == "people" else common | own
            scores += [_score(entry, metric, floors) for metric in entry.statistics]
            scores += [gain(entry, floor) for floor in _floors_of_gains(entry, measured)]
    return scores


def _floors_of_gains(
    entry: MeasuredSystem, measured: Sequence[MeasuredSystem]
) -> list[MeasuredSystem]:
    """Return the floors with which the CIDEr of a step is compared on the same images."""
    if "cider" not in entry.statistics:
        return []
    candidates = [o for o in measured if o.system.step in {"", entry.system.step}]
    return [other for name in GAINS for other in candidates if other.system.floor == name]


def items_of(
    examples: Examples, references: Sequence[Sequence[str]], measured: Sequence[MeasuredSystem]
) -> list[pa.Table]:
    """Return the items of all scores of steps, with the questions and their references."""
    right = [" / ".join(texts) for texts in references]
    tables = []
    for entry in measured:
        if entry.system.step and not entry.system.floor:
            at = {"step": entry.system.step}
            texts = (entry.system.questions, right)
            tables += [metric_items(examples, m, at, s, texts) for m, s in entry.statistics.items()]
            tables += [
                metric_items(examples, GAINS[other.system.floor], at, _more(entry, other), texts)
                for other in _floors_of_gains(entry, measured)
            ]
    return tables


def gain(entry: MeasuredSystem, other: MeasuredSystem) -> Score:
    """Return CIDEr minus a floor's, paired by image and (if the floor has seeds) by seed."""
    metric = GAINS[other.system.floor]
    return make_score(metric, {"step": entry.system.step}, _more(entry, other), chance=0.0)


def _more(entry: MeasuredSystem, other: MeasuredSystem) -> Floats:
    difference: Floats = entry.statistics["cider"] - other.statistics["cider"]
    return difference


def metric_items(
    examples: Examples,
    metric: str,
    at: Mapping[str, Any],
    statistics: Floats,
    texts: tuple[Sequence[Sequence[str]], Sequence[str]] | None = None,
) -> pa.Table:
    """Return the items of a metric with statistics [seeds, N, K].

    The items of a corpus score have the statistics of the questions of all seeds, and as credit
    the score of the single image. `texts` are the questions [seeds, N] and the references [N].
    """
    questions, right = texts or ([], [])
    if metric not in CORPORA:
        answers = answers_in_words(questions, right) if questions else None
        return item_table(examples, metric, at, trials(statistics[..., 0]), answers)
    together = pool_seeds(metric, statistics)
    of_image = [" / ".join(dict.fromkeys(group)) for group in zip(*questions, strict=True)]
    answers = answers_in_words([of_image], right) if questions else None
    table = item_table(examples, metric, at, CORPORA[metric].formula(together), answers)
    return table.append_column(STATISTICS, pa.array(together.tolist(), STATISTICS.type))


def make_score(metric: str, at: Mapping[str, str | int], statistics: Floats, **more: Any) -> Score:
    """Return the score of statistics [seeds, N, K]."""
    seeds, n = statistics.shape[:2]
    result = estimate(metric, statistics)
    return Score(
        metric=metric,
        at=dict(at),
        n=n,
        value=result.value,
        stderr=None if metric == DISTINCT else result.stderr,
        ci95=None if metric == DISTINCT else result.ci95,
        draws=[score_of(metric, of_seed) for of_seed in statistics] if seeds > 1 else (),
        unit=find_form(metric).unit,
        higher_is_better=find_form(metric).higher_is_better,
        range=(-10.0, 10.0) if metric in GAINS.values() else None,
        **more,
    )


def estimate(metric: str, statistics: Floats) -> Estimate:
    """Return the score of statistics [seeds, N, K], with standard error and interval.

    A mean of fractions uses `mean_of_seeds`, other scores `estimate_of_sums` over images and seeds.
    """
    together = pool_seeds(metric, statistics)
    if metric in {NOUN, SEEN}:
        return mean_of_seeds(statistics[..., 0])
    by_seed = [score_of(metric, values) for values in statistics]
    if metric in CORPORA:
        return estimate_of_sums(together, CORPORA[metric].formula, by_seed=by_seed)
    means = np.stack([together[:, 0], np.ones(len(together))], 1)
    return estimate_of_sums(means, ratio, by_seed=by_seed)


def _score(entry: MeasuredSystem, metric: str, floors: Mapping[str, MeasuredSystem]) -> Score:
    values = {name: floor.value(metric) for name, floor in floors.items()}
    # The length of a question, or its frequency in training, is not to be beaten.
    kept = {} if metric in {DISTINCT, SEEN, LENGTH} else values
    why = "" if kept else NO_CHANCE["people" if entry.system.step == "people" else "questions"]
    at = {"step": entry.system.step}
    return make_score(metric, at, entry.statistics[metric], floors=kept, no_chance=why)


class Measurements(NamedTuple):
    """Measurements on test images: systems, cosines by step, and the seeds.

    `against_people` has the same systems, and people, on images with several questions.
    """

    test: AskedImages
    measured: Sequence[MeasuredSystem]
    against_people: Sequence[MeasuredSystem]
    alike: Mapping[str, Floats]
    seeds: Sequence[int]


def outcome(measures: Measurements, counts: Mapping[str, int], drawn: Mapping[str, Any]) -> Outcome:
    """Return the scores with their items, and tables of all questions and of similarity."""
    examples = _examples(measures.test)
    scores = [*scores_of(measures.measured), *scores_of(measures.against_people)]
    tables = items_of(examples, measures.test.questions, measures.measured)
    similar = [
        _similarity(examples, step, layer, cosines)
        for step, cosines in measures.alike.items()
        for layer in _layers(cosines, len(scores), sum(map(len, tables)), len(measures.alike))
    ]
    return Outcome(
        scores=[*scores, *(score for score, _ in similar)],
        counts={"clusters": len(measures.test.captions), **counts},
        artifacts={
            "questions": _singles(pa.Table.from_pylist(list(_question_rows(measures)))),
            "similarity": pa.Table.from_pylist(list(similarity_rows(measures.alike))),
            **drawn,
        },
        items=join_items([*tables, *(table for _, table in similar)]),
    )


def _examples(test: AskedImages) -> Examples:
    """Return examples of the images, with digests of the images if the split has them."""
    columns = ("image", "picture", "regions")
    column = next(name for name in columns if name in test.split.columns)
    return test.split[column].examples()


def _layers(cosines: Floats, scores: int, items: int, systems: int) -> list[int]:
    """Return the layers, from 1, whose similarity is scored."""
    seeds, images, _, layers = cosines.shape
    many = scores + systems * layers > MOST_SCORES
    large = items + systems * layers * seeds * images > MOST_ITEMS
    return [layers] if many or large else list(range(1, layers + 1))


def _similarity(
    examples: Examples, step: str, layer: int, cosines: Floats
) -> tuple[Score, pa.Table]:
    at: dict[str, str | int] = {"step": step, "layer": layer}
    values, floors = cosines[:, :, 0, layer - 1, None], float(cosines[:, :, 1, layer - 1].mean())
    score = make_score(SIMILARITY, at, values, floors={ANOTHER_CAPTION: floors})
    return score, metric_items(examples, SIMILARITY, at, values)


def similarity_rows(alike: Mapping[str, Floats]) -> Iterator[dict[str, Any]]:
    """Yield the mean cosine with the image's caption and another caption, by step and layer."""
    for step, cosines in alike.items():
        for layer, (own, other) in enumerate(cosines.mean((0, 1)).T.tolist(), 1):
            yield {"step": step, "layer": layer, "caption": own, ANOTHER_CAPTION: other}


def _singles(table: pa.Table) -> pa.Table:
    """Return a table with float32 numbers, which take half the space; items have full precision."""
    fields = [
        field.with_type(pa.float32()) if pa.types.is_float64(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _question_rows(measures: Measurements) -> Iterator[dict[str, Any]]:
    """Yield each question of each system, with the image's references and the question's scores."""
    test, examples = measures.test, _examples(measures.test)
    for entry in measures.measured:
        step, floor, questions = entry.system
        of_images = {m: _of_images(m, s) for m, s in entry.statistics.items()}
        for turn, of_seed in enumerate(questions):
            seed = measures.seeds[turn] if len(questions) == len(measures.seeds) and step else None
            for i, question in enumerate(of_seed):
                yield {
                    "id": examples.ids[i],
                    "digest": examples.digests[i],
                    "step": step or None,
                    "floor": floor or None,
                    "seed": seed,
                    "caption": test.captions[i][0],
                    "question": question,
                    "references": test.questions[i],
                    **{metric: float(values[turn, i]) for metric, values in of_images.items()},
                }


def _of_images(metric: str, statistics: Floats) -> Floats:
    """Return the score [seeds, N] of each single image."""
    if metric in CORPORA:
        return CORPORA[metric].formula(statistics)
    alone: Floats = np.asarray(statistics[..., 0])
    return alone
