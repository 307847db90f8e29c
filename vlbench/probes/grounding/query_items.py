"""Items of queries: whether the chosen heads find what each word names, in its image's cluster.

Scores of single heads and of layers have none; the table of heads has their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from vlbench.data.records import Column
from vlbench.metrics.items import Answers, Examples, item_table, join_items
from vlbench.probes.grounding.measures import JUDGED
from vlbench.probes.grounding.queries import Query
from vlbench.probes.grounding.scores import SPLIT_HALF, Group


class _Asked(NamedTuple):
    """The queries of one group: of which image, under which number there, and of which word."""

    images: list[int]
    numbers: list[int]
    words: list[str]


def query_items(
    pictures: Column, queries: Column, credit: Sequence[Tensor | None], groups: Sequence[Group]
) -> Any:
    """Return the items of all groups; `credit` is [Q, layers, heads, JUDGED] for each image."""
    images = pictures.examples()
    tables = []
    for group in groups:
        asked = _asked(queries, group.number)
        pairs = list(zip(asked.images, asked.numbers, strict=True))
        examples = Examples(
            [f"{images.ids[i]}/{k}" for i, k in pairs],
            [images.digests[i] for i in asked.images],
            [images.ids[i] for i in asked.images],
        )
        words = sorted(set(asked.words))
        right = [words.index(word) for word in asked.words]
        said = Answers(words, np.full(len(right), -1), right)
        for metric, (measure, heads) in _judges(group).items():
            found = [_credit(credit[i], k, measure, heads[i]) for i, k in pairs]
            tables.append(item_table(examples, metric, group.at, found, said))
    return join_items(tables)


def _asked(queries: Column, group: int) -> _Asked:
    found = _Asked([], [], [])
    for i, one in enumerate(queries):
        asked = [
            (Query(*query), text)
            for text, of_text in zip(one["texts"], one["queries"], strict=True)
            for query in of_text
        ]
        for k, (query, text) in enumerate(asked):
            if query.group == group:
                found.images.append(i)
                found.numbers.append(k)
                found.words.append(text[query.start : query.stop])
    return found


def _judges(group: Group) -> dict[str, tuple[int, Sequence[Sequence[int]]]]:
    """Return the measure of each score of a group, and the heads that judge each image."""
    images = len(group.sizes)
    found: dict[str, tuple[int, Sequence[Sequence[int]]]] = {
        SPLIT_HALF.get(name, name): (JUDGED.index(name), halves.judges)
        for name, halves in group.halves.items()
    }
    found["best_head_accuracy"] = (0, [[group.best]] * images)
    if group.best_active is not None:
        found["best_active_head_accuracy"] = (0, [[group.best_active]] * images)
    return found


def _credit(of_image: Tensor | None, query: int, measure: int, heads: Sequence[int]) -> float:
    """Return the mean credit of a query under some heads; 0 where the image has no regions."""
    if of_image is None:
        return 0.0
    by_head = of_image[query, ..., measure].flatten()
    return float(by_head[list(heads)].double().mean())
