"""Items of a score, of one or several models, and the items that models get wrong most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vlbench.boards.artifacts import read_items, read_table
from vlbench.boards.joins import Placed, RowItems
from vlbench.errors import DataError, UnknownNameError
from vlbench.metrics.items import at_text
from vlbench.results import ANSWERS, REPLY_COLUMNS, Result

# Suffix of the name of a mean over categories, whose items have weights.
WEIGHTED = "_macro"

# Number of items kept, and number of predictions kept per item.
MOST, MOST_PREDICTIONS = 10, 3


@dataclass(frozen=True)
class WrongItem:
    """An example: its mean credit over `models`, and how often they predicted what.

    Only the most frequent predictions are kept, the most frequent first.
    """

    id: str
    credit: float
    models: int
    target: str
    predictions: Mapping[str, int]


class Answered(NamedTuple):
    """A model's N items in compact form: hundreds of models are in memory at once.

    `credit` [N] is the mean over trials; `codes` are the indices of its predictions in `texts`,
    negative for no prediction.
    """

    placed: Placed
    credit: NDArray[np.float64]
    codes: NDArray[Any]
    texts: pa.Array


def answered(items: RowItems) -> Answered:
    """Return a model's items in compact form."""
    texts, codes = items.predictions.dictionary, items.predictions.indices
    small = np.min_scalar_type(-max(len(texts), 1))
    credit = np.nanmean(items.credit, 0) if len(items.credit) > 1 else items.credit[0]
    return Answered(items.placed, credit, codes.fill_null(-1).to_numpy().astype(small), texts)


def worst_items(models: Sequence[Answered], *, lower: bool) -> list[WrongItem]:
    """Return the items with the lowest mean credit, or the highest if lower is better; ties by id.

    Each model counts once. Only items that all models have, and that not all models got right, are
    returned; if `lower` is better, a credit of 0 is right.
    """
    if not models:
        return []
    shared = sorted(set(models[0].placed.ids).intersection(*(one.placed.ids for one in models[1:])))
    # A model's items need no reordering if they are exactly the items that all models share.
    everywhere = [
        range(len(shared)) if one.placed.ids == shared else _places(one, shared) for one in models
    ]
    credit = np.mean([model.credit[at] for model, at in zip(models, everywhere, strict=True)], 0)
    cost, full = (-credit, 0.0) if lower else (credit, 1.0)
    order = np.argsort(cost, kind="stable")[:MOST]
    wrong = [int(i) for i in order if cost[i] < full]
    return [_wrong_item(models, [at[i] for at in everywhere], float(credit[i])) for i in wrong]


def _places(model: Answered, names: Sequence[str]) -> list[int]:
    places = {name: i for i, name in enumerate(model.placed.ids)}
    return [places[name] for name in names]


def _wrong_item(models: Sequence[Answered], places: Sequence[int], credit: float) -> WrongItem:
    """Return an item with what models predicted; `places` has its index in each model's items."""
    predictions: Counter[str] = Counter()
    targets = []
    for model, place in zip(models, places, strict=True):
        codes = model.codes[model.placed.places == place]
        predictions.update(model.texts[int(code)].as_py() for code in codes if code >= 0)
        targets.append(model.placed.targets[place])
    most = sorted(predictions.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_PREDICTIONS]
    name, target = models[0].placed.ids[places[0]], next(filter(None, targets), "")
    return WrongItem(name, credit, len(models), target, dict(most))


class KeptReply(NamedTuple):
    """A reply: its text, and why it names no single option; "" if it names an option.

    `options` are the options in the order in which they were shown.
    """

    reply: str
    unread: str
    options: Sequence[str]


class Item(NamedTuple):
    """An example: its mean credit over trials, and the most frequent prediction, "" for none.

    `said` is in how many of the `trials` the model made this prediction; a choice among tied
    candidates counts as no prediction. `image` is the digest of the image, "" if that is the digest
    of the item. `replies` are the model's replies in words, if its row keeps them.
    """

    id: str
    digest: str
    credit: float
    prediction: str
    target: str
    said: int
    trials: int
    image: str = ""
    replies: Sequence[KeptReply] = ()

    @property
    def plain(self) -> dict[str, Any]:
        """The item as plain values; items without replies have no `replies`."""
        replies = {"replies": [reply._asdict() for reply in self.replies]} if self.replies else {}
        values = self._asdict()
        del values["replies"]
        return {**values, **replies}

    @property
    def shown(self) -> str:
        """The digest of the image to show."""
        return self.image or self.digest


class Card(NamedTuple):
    """What the viewer shows of an item: a text, and images by digest, with a text below each."""

    text: str
    images: Sequence[tuple[str, str]]


def unweighted(row: Result) -> str:
    """Return the primary metric; for a weighted mean over categories, the metric of the plain mean.

    The credit of a weighted item does not show whether the item is right.
    """
    metric = str(row.primary["metric"])
    plain = metric.removesuffix(WEIGHTED)
    return plain if any(score.metric == plain for score in row.scores) else metric


def row_items(output: Path, row: Result, metric: str, at: Mapping[str, Any]) -> list[Item]:
    """Return the items of one score of a board's row, with the replies that the row keeps.

    Raises as `score_items` and `read_items` do.
    """
    items = score_items(read_items(output, row), metric, at)
    replies = replies_of(output, row)
    return [item._replace(replies=replies.get(item.id, ())) for item in items]


def replies_of(output: Path, row: Result) -> dict[str, list[KeptReply]]:
    """Return what the model said about each item, by id; empty if the row does not keep it.

    Raises DataError for a table that `reply_table` did not make.
    """
    replies: dict[str, list[KeptReply]] = {}
    is_kept = ANSWERS in row.artifacts
    for line in read_table(output, row, ANSWERS, REPLY_COLUMNS) if is_kept else ():
        try:
            options = [str(line["options"][int(place)]) for place in line["order"].split()]
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            file = row.artifacts[ANSWERS]["file"]
            raise DataError(f"{file} is not a table of replies: {error}") from error
        reply = KeptReply(str(line["reply"]), str(line["unread"]), options)
        replies.setdefault(str(line["id"]), []).append(reply)
    return replies


def score_items(table: pa.Table, metric: str, at: Mapping[str, Any]) -> list[Item]:
    """Return the items of one score, in the order in which they were tested.

    Raises UnknownNameError, which lists the scores that have items, if this score has none.
    """
    mask = pc.and_(pc.equal(table["metric"], metric), pc.equal(table["at"], at_text(at)))
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.filter(mask).to_pylist():
        rows.setdefault(row["id"], []).append(row)
    if not rows:
        scores = sorted(f"{metric} at {at}" for metric, at in scores_with_items(table))
        raise UnknownNameError(f"no items of {metric} at {at_text(at)}; there are {scores}")
    return [_item(same) for same in rows.values()]


def scores_with_items(table: pa.Table) -> set[tuple[str, str]]:
    """Return the metric and the conditions of each score in a table of items."""
    pairs = table.select(["metric", "at"]).group_by(["metric", "at"]).aggregate([])
    return {(row["metric"], row["at"]) for row in pairs.to_pylist()}


def worst(items: Sequence[Item], *, higher_is_better: bool = True) -> list[Item]:
    """Return the items without full credit, the worst first.

    If lower is better, as for the success of an attack, full credit is 0.
    """
    costs = {item.id: 1 - item.credit if higher_is_better else item.credit for item in items}
    return sorted((item for item in items if costs[item.id] > 0), key=lambda item: -costs[item.id])


def joined(
    row: Result, other: Result, items: Sequence[Item], others: Sequence[Item]
) -> list[tuple[Item, Item]]:
    """Return the items of a row with those of another, of the same id and content.

    Raises DataError for rows that are not comparable, and for rows that share no item.
    """
    if row.comparable != other.comparable:
        raise DataError(
            f"{row.model} and {other.model} are not comparable on {row.task}: their data, regions "
            "or parameters differ"
        )
    theirs = {(item.id, item.digest): item for item in others}
    both = [(a, theirs[key]) for a in items if (key := (a.id, a.digest)) in theirs]
    if not both:
        raise DataError(
            f"{row.model} and {other.model} share no item of {row.task}: their data differ"
        )
    return both


def best_first(
    pairs: Sequence[tuple[Item, Item]], *, higher_is_better: bool = True
) -> list[tuple[Item, Item]]:
    """Return pairs of items, those whose first item is better by most first."""
    sign = 1 if higher_is_better else -1
    return sorted(pairs, key=lambda pair: sign * (pair[1].credit - pair[0].credit))


def _item(same: Sequence[Mapping[str, Any]]) -> Item:
    predictions = Counter(row["prediction"] for row in same if row["prediction"] is not None)
    prediction, times = predictions.most_common(1)[0] if predictions else ("", 0)
    first, credit = same[0], fmean(row["credit"] for row in same)
    return Item(
        id=first["id"],
        digest=first["digest"],
        credit=credit,
        prediction=prediction,
        target=first["target"] or "",
        said=times,
        trials=len(same),
        image=first.get("image") or "",
    )
