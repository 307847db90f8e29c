"""The outcome of visual question generation: scores, items, tables and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.items import Examples, join_items
from vlbench.metrics.statistics import Floats
from vlbench.probes.question_generation.measures import Measured
from vlbench.probes.question_generation.reading import Asked
from vlbench.probes.question_generation.scores import (
    ANOTHER,
    ANOTHER_CAPTION,
    gain_items,
    items_of,
    made,
    metric_items,
    scores_of,
)
from vlbench.results import Outcome, Score

SIMILARITY = "cls_similarity"

# With more scores than this, or more items, similarity is scored at the last layer alone.
MOST_SCORES, MOST_ITEMS = 200, 9_000_000


class Found(NamedTuple):
    """What was measured of test images: systems, cosines by step, and the seeds."""

    test: Asked
    measured: Sequence[Measured]
    alike: Mapping[str, Floats]
    seeds: Sequence[int]


def outcome(found: Found, counts: Mapping[str, int], drawn: Mapping[str, Any]) -> Outcome:
    """Return the scores with their items, and tables of all questions and of similarity."""
    examples = _examples(found.test)
    scores, tables = scores_of(found.measured), _items(examples, found.measured)
    similar = [
        (_similarity(step, layer, cosines), _similarity_items(examples, step, layer, cosines))
        for step, cosines in found.alike.items()
        for layer in _layers(cosines, len(scores), sum(map(len, tables)), len(found.alike))
    ]
    return Outcome(
        scores=[*scores, *(score for score, _ in similar)],
        counts={"clusters": len(found.test.captions), **counts},
        artifacts={
            "questions": pa.Table.from_pylist(list(_question_rows(found))),
            "similarity": pa.Table.from_pylist(list(similarity_rows(found.alike))),
            **drawn,
        },
        items=join_items([*tables, *(table for _, table in similar)]),
    )


def _examples(test: Asked) -> Examples:
    """Return what identifies the images: themselves, where the split has them."""
    columns = ("image", "picture", "regions")
    column = next(name for name in columns if name in test.split.columns)
    return test.split[column].examples()


def _items(examples: Examples, measured: Sequence[Measured]) -> list[pa.Table]:
    tables = items_of(examples, measured)
    steps = {one.system.step: one for one in measured if not one.system.floor}
    for other in measured:
        if other.system.floor == ANOTHER and "cider" in other.statistics:
            tables.append(gain_items(examples, steps[other.system.step], other))
    return tables


def _layers(cosines: Floats, scores: int, items: int, systems: int) -> list[int]:
    """Return the layers, from 1, whose similarity is scored."""
    seeds, images, _, layers = cosines.shape
    many = scores + systems * layers > MOST_SCORES
    large = items + systems * layers * seeds * images > MOST_ITEMS
    return [layers] if many or large else list(range(1, layers + 1))


def _similarity(step: str, layer: int, cosines: Floats) -> Score:
    own, other = (cosines[:, :, k, layer - 1] for k in (0, 1))
    floors = {ANOTHER_CAPTION: float(other.mean())}
    return made(SIMILARITY, {"step": step, "layer": layer}, own[..., None], floors=floors)


def _similarity_items(examples: Examples, step: str, layer: int, cosines: Floats) -> pa.Table:
    own = cosines[:, :, 0, layer - 1, None]
    return metric_items(examples, SIMILARITY, {"step": step, "layer": layer}, own)


def similarity_rows(alike: Mapping[str, Floats]) -> Iterator[dict[str, Any]]:
    """Yield the mean cosine with the own and another's caption, by step and layer."""
    for step, cosines in alike.items():
        for layer, (own, other) in enumerate(cosines.mean((0, 1)).T.tolist(), 1):
            yield {"step": step, "layer": layer, "caption": own, ANOTHER_CAPTION: other}


def _question_rows(found: Found) -> Iterator[dict[str, Any]]:
    """Yield each question of each system, with its image's references and its own scores."""
    test, examples = found.test, _examples(found.test)
    for one in found.measured:
        step, floor, questions = one.system
        if step == "people":
            continue
        own = {m: _of_images(m, s) for m, s in one.statistics.items()}
        for turn, of_seed in enumerate(questions):
            seed = found.seeds[turn] if len(questions) == len(found.seeds) and step else None
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
                    **{metric: float(values[turn, i]) for metric, values in own.items()},
                }


def _of_images(metric: str, statistics: Floats) -> Floats:
    """Return the score [seeds, N] of each image alone."""
    if metric in CORPORA:
        return CORPORA[metric].formula(statistics)
    alone: Floats = np.asarray(statistics[..., 0])
    return alone
