"""What of a score from replies a preference for a letter, or an answer, earns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from vlbench.metrics.intervals import Estimate
from vlbench.metrics.items import Examples, Items
from vlbench.metrics.paired import holm
from vlbench.metrics.ranking import without_answer
from vlbench.metrics.replies import Labelled
from vlbench.metrics.response_bias import FLOOR, Bias, ReplyLabels, bias_of_items, response_bias
from vlbench.results import Artifact, At, Score

LEVEL = 0.05

# If there are more categories, their scores are an artifact.
MOST_CATEGORIES = 150
OF_EACH = "the p of each category is in the artifact response_bias"


class Biased(NamedTuple):
    """Items with the floor `response_bias`, scores above it, counts, and tables by category."""

    items: Items
    scores: Sequence[Score] = ()
    counts: Mapping[str, int] = {}
    artifacts: Mapping[str, Artifact] = {}


def above_bias(items: Items, labelled: Labelled | None, categories: Sequence[str]) -> Biased:
    """Return what items earn above the response bias of their replies (see `response_bias`).

    The scores are over all items, for each of the categories, and the mean over the categories; if
    there are categories, kappa and the balanced accuracy are of each and the mean over them only.
    Without labels in replies there are none.
    """
    if labelled is None:
        return Biased(items)
    said = _codes(items.examples, labelled)
    bias = bias_of_items(said)
    left_out = int(np.isnan(bias).sum())
    if not left_out:
        floor = without_answer(torch.from_numpy(bias))
        items = items._replace(floors={**items.floors, FLOOR: floor})
    counts = {"items_without_response_bias": left_out} if left_out else {}
    of_items, tests = np.array(items.examples.categories), max(len(categories), 1)
    tried = {name: response_bias(said.select(of_items == name), tests=tests) for name in categories}
    by_name = {name: part for name, part in tried.items() if part}
    adjusted = dict(zip(by_name, holm([part.p for part in by_name.values()]), strict=True))
    whole, scores = response_bias(said), list[Score]()
    if whole:
        of_whole = whole if not by_name else whole._replace(kappa=None, balanced=None)
        scores += _scores(items.metric, "", {}, of_whole, whole.p)
    if by_name:
        is_scored = np.isin(of_items, categories)
        macro = response_bias(said.select(is_scored), macro=True)
        scores += _scores(items.metric, "_macro", {}, macro, macro.p) if macro else []
        scores.append(_above(adjusted, by_name))
    for name, of_category in by_name.items() if len(categories) <= MOST_CATEGORIES else ():
        scores += _scores(items.metric, "", {"category": name}, of_category, adjusted[name])
    artifacts = {
        "response_bias": _table(items.metric, whole, by_name, adjusted),
        "replies": _replies(items.examples, labelled),
    }
    return Biased(items, scores, counts, artifacts)


def _codes(examples: Examples, labelled: Labelled) -> ReplyLabels:
    n = len(examples.ids)
    category, cluster = (
        np.unique(names, return_inverse=True)[1] if names else np.zeros(n, np.intp)
        for names in (examples.categories, examples.clusters or examples.ids)
    )
    return ReplyLabels(
        labelled.item,
        labelled.label,
        labelled.right,
        labelled.options,
        category,
        cluster,
        labelled.texts,
    )


def _scores(metric: str, kind: str, at: At, bias: Bias, p: float) -> list[Score]:
    """Return the gain over the bias with its verdict, kappa and the balanced accuracy."""
    verdict = f"{'finding' if p <= LEVEL else 'no finding'}, p {p:.3f}"
    both: dict[str, Any] = {"at": at, "n": bias.n, "range": (-1.0, 1.0), "chance": 0.0}
    gain = f"{metric}{kind}_gain_over_response_bias"
    scores = [Score(gain, unit="fraction", verdict=verdict, **both, **bias.gain._asdict())]
    if bias.kappa:
        kappa = bias.kappa._asdict()
        scores.append(Score(f"cohen_kappa{kind}", unit="number", **both, **kappa))
    if bias.balanced:
        estimate: Estimate = bias.balanced
        name, chance = f"balanced_accuracy{kind}", bias.chance
        scores.append(Score(name, at=at, n=bias.n, chance=chance, **estimate._asdict()))
    return scores


def _above(adjusted: Mapping[str, float], by_name: Mapping[str, Bias]) -> Score:
    above = [name for name, p in adjusted.items() if p <= LEVEL and by_name[name].gain.value > 0]
    name, n = "categories_above_response_bias", len(by_name)
    return Score(name, len(above), n, unit="categories", range=(0, n), no_chance=OF_EACH)


def _table(
    metric: str, whole: Bias | None, by_name: Mapping[str, Bias], adjusted: Mapping[str, float]
) -> Artifact:
    """Return the bias, the gain and its p over all items, under "", and in each category."""
    rows = []
    for name, bias in (({"": whole} if whole else {}) | dict(by_name)).items():
        low, high = bias.gain.ci95
        rows.append(
            {
                "metric": metric,
                "category": name,
                "n": bias.n,
                "response_bias": bias.bias,
                "gain": bias.gain.value,
                "low": low,
                "high": high,
                "p": bias.p,
                "p_holm": adjusted.get(name, bias.p),
                "p_by": bias.p_by,
                "kappa": bias.kappa.value if bias.kappa else None,
                "balanced_accuracy": bias.balanced.value if bias.balanced else None,
            }
        )
    return pa.Table.from_pylist(rows)


def _replies(examples: Examples, labelled: Labelled) -> Artifact:
    """Return how often each label was said and was right, by category.

    `said` and `right` are places of labels from 1, and 0 for an unread reply. An item with several
    right labels is in the table with each. `replies` are counted by item: those to one add up to 1.
    """
    weights = 1 / np.bincount(labelled.item)[labelled.item]
    names = np.array(examples.categories or [""] * len(examples.ids))[labelled.item]
    reply, right = np.nonzero(labelled.right)
    rows: dict[tuple[str, int, int, int], float] = {}
    for i, place in zip(reply.tolist(), right.tolist(), strict=True):
        options = int(labelled.options[labelled.item[i]])
        key = (str(names[i]), options, int(labelled.label[i]) + 1, place + 1)
        rows[key] = rows.get(key, 0.0) + float(weights[i])
    columns = ("category", "options", "said", "right", "replies")
    return pa.Table.from_pylist(
        [dict(zip(columns, (*key, n), strict=True)) for key, n in sorted(rows.items())]
    )
