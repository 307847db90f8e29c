"""Joins the items of a score of two rows by id, and compares them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vlbench.errors import DataError
from vlbench.metrics.corpus import CORPORA, CorpusScore
from vlbench.metrics.intervals import Formula
from vlbench.metrics.items import BOTH, DIGITS, STATISTICS, at_text
from vlbench.metrics.paired import Comparison, Outcomes, compare_corpora, compare_items
from vlbench.results import Score

# The columns that determine the place of a table's row.
PLACING = ["id", "digest", "target", "cluster", "trial"]

# Allowed difference of a score from its items: models may sum scores in float32.
ROUNDING = 1e-6


class NoItemsError(DataError):
    """A row keeps items, but none of this score."""


class Placed(NamedTuple):
    """The place of each row of a table of items: its trial, and its index in the sorted ids."""

    table: pa.Table
    ids: Sequence[str]
    digests: Sequence[str | None]
    targets: Sequence[str | None]
    clusters: Sequence[str | None]
    places: NDArray[np.int32]
    trials: NDArray[np.intp]


class RowItems(NamedTuple):
    """The N items of a model's score, sorted by id.

    `credit` is [T, N], T = 1 without trials, NaN for an item that a trial leaves out. `values` are
    the same, or, with the formula of a corpus score, statistics [N, S]. `halves` are the score's
    values on random halves of the items; a score without halves has only its value.
    """

    model: str
    placed: Placed
    credit: NDArray[np.float64]
    values: NDArray[np.float64]
    formula: Formula | None
    predictions: pa.DictionaryArray
    halves: NDArray[np.float64]

    @property
    def ids(self) -> Sequence[str]:
        """The ids, sorted."""
        return self.placed.ids


def items_of(model: str, table: pa.Table, score: Score, like: RowItems | None = None) -> RowItems:
    """Return the items of a score from the table of items of a model's row.

    The places of `like`, another model's items, are reused if both tables have the same items.
    Raises NoItemsError if there are no items, and DataError if an item occurs twice, or if the
    items do not give the value of the score.
    """
    table = _of_score(table, score)
    if not table.num_rows:
        raise NoItemsError(f"{model} has no items of this score, which is not a mean over examples")
    is_alike = like and all(table[name].equals(like.placed.table[name]) for name in PLACING)
    placed = like.placed if like and is_alike else _place_rows(table, model)
    credit = np.full((int(placed.trials.max()) + 1, len(placed.ids)), np.nan)
    credit[placed.trials, placed.places] = _numbers(table["credit"].combine_chunks())
    corpus = _corpus(table, score)
    if corpus:
        first = np.unique(placed.places, return_index=True)[1]
        values = _statistics(table, len(corpus.statistics))[first]
        value = float(corpus.formula(values.sum(0)))
    else:
        values = credit
        value = float(np.nanmean(values, 1).mean())
    if not abs(value - score.value) <= ROUNDING * max(1.0, abs(score.value)):
        raise DataError(f"the items of {model} give {value:.6g}, not its {score.value:.6g}")
    formula = corpus.formula if corpus else None
    halves = score.halves or [score.value]
    predictions = table["prediction"].combine_chunks()
    return RowItems(model, placed, credit, values, formula, predictions, np.asarray(halves, float))


def compare(a: RowItems, b: RowItems, *, higher_is_better: bool) -> Comparison:
    """Compare a score of two models, first minus second; a win is an item with a better value.

    Raises DataError, naming the item, if the models do not have the same items.
    """
    _require_joined(a, b)
    clusters = _cluster_numbers(tuple(a.placed.clusters))
    if a.formula:
        return compare_corpora(a.values, b.values, clusters, a.formula)
    differences = a.halves - b.halves
    halves = differences if len(differences) > 1 else None
    comparison = compare_items(a.values, b.values, clusters, halves=halves)
    if higher_is_better or not comparison.outcomes:
        return comparison
    wins, losses, ties = comparison.outcomes
    return comparison._replace(outcomes=Outcomes(losses, wins, ties))


@lru_cache(maxsize=1)
def _cluster_numbers(clusters: tuple[str | None, ...]) -> NDArray[np.intp]:
    """Return the cluster number of each item [N]; if each item is in two clusters, both, [N, 2].

    Cached, since the leader of a board has the same clusters against every model.
    """
    labels = [f"item {i}" if c is None else f"cluster {c}" for i, c in enumerate(clusters)]
    both = [c.split(BOTH) for c in clusters if c and c.count(BOTH) == 1]
    names = both if len(both) == len(labels) else labels
    numbers: NDArray[np.intp] = np.unique(names, return_inverse=True)[1].reshape(np.shape(names))
    return numbers


def _of_score(table: pa.Table, score: Score) -> pa.Table:
    """Return the items of a score; most tables contain only one score."""
    for name, text in (("metric", score.metric), ("at", at_text(score.at))):
        column = table[name].combine_chunks()
        values = column.dictionary.to_pylist()
        if text not in values:
            return table.slice(0, 0)
        if column.null_count or len(values) > 1:
            # Compared with a value of the column: any other value imports pandas, which takes 0.4
            # s.
            table = table.filter(pc.equal(column, column.dictionary[values.index(text)]))
    return table


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Return the values of a column without nulls; `to_numpy` would import pandas (0.4 s)."""
    return np.from_dlpack(column)


def _place_rows(table: pa.Table, model: str) -> Placed:
    """Return the places of the rows of a table."""
    if table["id"].null_count:
        raise DataError(f"{model} has an item without an id")
    coded = table["id"].cast(pa.string()).combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    places: NDArray[np.int32] = np.argsort(order).astype(np.int32)[_numbers(coded.indices)]
    column = table["trial"].combine_chunks()
    trials = np.zeros(len(column), np.intp)
    if column.null_count < len(column):
        numbers = column.fill_null(-1) if column.null_count else column
        trials = np.unique(_numbers(numbers), return_inverse=True)[1]
    if np.bincount(trials * len(names) + places).max() > 1:
        raise DataError(f"{model} lists an item twice")
    first = np.unique(places, return_index=True)[1]
    rows = pa.Array.from_buffers(pa.int64(), len(first), [None, pa.py_buffer(first)])
    digests, targets, clusters = (
        table[name].take(rows).cast(pa.string()).to_pylist()
        for name in ("digest", "target", "cluster")
    )
    ids, digests = [names[i] for i in order], [digest and digest[:DIGITS] for digest in digests]
    return Placed(table.select(PLACING), ids, digests, targets, clusters, places, trials)


def _require_joined(a: RowItems, b: RowItems) -> None:
    for left, right in ((a, b), (b, a)) if a.ids != b.ids else ():
        lone = sorted(set(left.ids) - set(right.ids))
        if lone:
            raise DataError(f"{left.model} has the item {lone[0]!r}, but {right.model} does not")
    parts: list[tuple[str, Sequence[Any], Sequence[Any]]] = [
        ("content", a.placed.digests, b.placed.digests),
        ("target", a.placed.targets, b.placed.targets),
        ("cluster", a.placed.clusters, b.placed.clusters),
    ]
    for what, mine, theirs in (part for part in parts if part[1] != part[2]):
        for name, first, second in zip(a.ids, mine, theirs, strict=True):
            # Rows of older versions and recordings may not record the target.
            if first != second and (what != "target" or None not in (first, second)):
                raise DataError(f"the item {name!r} of {a.model} and of {b.model} differ in {what}")
    if a.values.shape != b.values.shape or (np.isnan(a.values) != np.isnan(b.values)).any():
        raise DataError(f"{a.model} and {b.model} have items in different trials")
    if len({len(a.halves), len(b.halves)} - {1}) > 1:
        raise DataError(f"{a.model} and {b.model} have different numbers of halves")


def _corpus(table: pa.Table, score: Score) -> CorpusScore | None:
    """Return the corpus score whose statistics the items have; None for a mean of credit."""
    if STATISTICS.name not in table.column_names:
        return None
    if table[STATISTICS.name].null_count == table.num_rows:
        return None
    if score.metric not in CORPORA:
        names = ", ".join(CORPORA)
        raise DataError(f"no corpus score is called {score.metric}; there are {names}")
    return CORPORA[score.metric]


def _statistics(table: pa.Table, width: int) -> NDArray[np.float64]:
    """Return the statistics of the items of a corpus score, [N, S], in the table's order."""
    column = table[STATISTICS.name]
    sizes = pc.list_value_length(column)
    if column.null_count or not pc.all(pc.equal(sizes, width)).as_py():
        raise DataError(f"an item does not have {width} statistics")
    values = pc.list_flatten(column)
    if values.null_count or not pc.all(pc.is_finite(values)).as_py():
        raise DataError("an item has a statistic that is not finite")
    array: NDArray[np.float64] = values.to_numpy().reshape(-1, width)
    return array
