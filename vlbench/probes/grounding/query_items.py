"""The queries behind the scores of heads, as items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from vlbench.data.records import Column
from vlbench.metrics.items import Answers, Examples, Measured, at_text
from vlbench.probes.grounding.attention import HeadSums
from vlbench.probes.grounding.measures import JUDGED, Query
from vlbench.probes.grounding.scores import SPLIT_HALF, QueryGroup
from vlbench.results import Score


def with_queries(
    scores: Sequence[Score],
    pictures: Column,
    queries: Column,
    sums: HeadSums,
    groups: Sequence[QueryGroup],
) -> list[Measured]:
    """Return scores with their queries as items, if the scores are of chosen heads.

    The target of a query is its word and gold boxes; its prediction is the box that the head chose.
    """
    images = pictures.examples()
    items: dict[tuple[str, str], Any] = {}
    for group in groups:
        words = _collect(queries, group.number)
        pairs, targets = [pair for pair, _ in words], [target for _, target in words]
        examples = Examples(
            [f"{images.ids[i]}/{k}" for i, k in pairs],
            [images.digests[i] for i, _ in pairs],
            [images.ids[i] for i, _ in pairs],
        )
        for metric, (measure, heads) in _judges(group).items():
            earned = [_credit(sums.queries[i], k, measure, heads[i]) for i, k in pairs]
            choices = [_choice(sums.chosen[i], sums.boxes[i], k, heads[i]) for i, k in pairs]
            # Attention on gold and pointing do not choose a region.
            answers = _answers(choices if measure == 0 else [""] * len(choices), targets)
            items[metric, at_text(group.at)] = examples, earned, answers
    return [Measured(score, *items.get((score.metric, at_text(score.at)), ())) for score in scores]


def _collect(queries: Column, group: int) -> list[tuple[tuple[int, int], str]]:
    """Return each query of a group: its image and number within the image, and its target."""
    collected = []
    for i, of_image in enumerate(queries):
        words = [
            (Query(*query), text)
            for text, of_text in zip(of_image["texts"], of_image["queries"], strict=True)
            for query in of_text
        ]
        for k, (query, text) in enumerate(words):
            if query.group == group:
                gold = " or ".join(map(_box, of_image["targets"][query.target]))
                collected.append(((i, k), f"{text[query.start : query.stop]}: {gold}"))
    return collected


def _judges(group: QueryGroup) -> dict[str, tuple[int, Sequence[Sequence[int]]]]:
    """Return the measure of each score of a group, and the heads that judge each image."""
    images = len(group.sizes)
    groups: dict[str, tuple[int, Sequence[Sequence[int]]]] = {
        SPLIT_HALF.get(name, name): (JUDGED.index(name), halves.judges)
        for name, halves in group.halves.items()
    }
    groups["best_head_accuracy"] = (0, [[group.best]] * images)
    if group.best_active is not None:
        groups["best_active_head_accuracy"] = (0, [[group.best_active]] * images)
    return groups


def _answers(said: Sequence[str], targets: Sequence[str]) -> Answers:
    """Return the predictions, "" for none, and the targets."""
    place = {name: i for i, name in enumerate(dict.fromkeys([*filter(None, said), *targets]))}
    return Answers(
        [*place], [place[one] if one else -1 for one in said], [place[target] for target in targets]
    )


def _box(box: Sequence[float]) -> str:
    """Return the corners of a box in whole pixels: left, top, right, bottom."""
    return " ".join(f"{x:.0f}" for x in box)


def _choice(chosen: Tensor | None, boxes: Tensor | None, query: int, heads: Sequence[int]) -> str:
    """Return the box that heads chose for a query; "" if they chose several, or none."""
    if chosen is None or boxes is None:
        return ""
    places = set(chosen[query].flatten()[list(heads)].tolist())
    place = places.pop() if len(places) == 1 else -1
    return _box(boxes[place].tolist()) if place >= 0 else ""


def _credit(of_image: Tensor | None, query: int, measure: int, heads: Sequence[int]) -> float:
    """Return the mean credit of a query under some heads; 0 if the image has no regions."""
    if of_image is None:
        return 0.0
    by_head = of_image[query, ..., measure].flatten()
    return float(by_head[list(heads)].double().mean())
