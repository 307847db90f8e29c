"""Items of a row as instance-level records of Every Eval Ever: one for each score and item.

The trials of a score become one record, whose output has the answer of each trial, and whose score
is the mean. An item is correct where its credit is the best that the metric can give, in each
trial. The input is an image or a text that stays where it is: its id and digest stand for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pyarrow as pa

from vlbench.errors import DataError
from vlbench.leaderboard.artifacts import STATISTICS, read_items
from vlbench.results import Result, Score


class Trial(NamedTuple):
    """What is used of one row of a table of items."""

    id: str
    digest: str
    metric: str
    at: str
    credit: float
    prediction: str | None
    target: str | None


_PLAIN = {"credit": pa.float64()}


class Scores(NamedTuple):
    """What all records of a row share, and the id and the score of each metric and `at`."""

    head: Mapping[str, str]
    ids: Mapping[tuple[str, str], tuple[str, Score]]


def sample_lines(output: Path, row: Result, scores: Scores) -> Iterator[dict[str, Any]]:
    """Yield the records of a row's items, in the order of its table.

    Items of a score that is no mean of them (a corpus score) are left out. Raises DataError where
    the table cannot be read, or does not fit the row.
    """
    table = read_items(output, row)
    if STATISTICS.name in table.column_names:
        table = table.filter(table[STATISTICS.name].is_null())
    columns = (
        table[name].cast(_PLAIN.get(name, pa.string())).to_pylist() for name in Trial._fields
    )
    trials: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in map(Trial._make, zip(*columns, strict=True)):
        trials.setdefault((trial.metric, trial.at, trial.id), []).append(trial)
    for metric, at, _ in trials:
        if (metric, at) not in scores.ids:
            raise DataError(f"its items have a score that the row lacks: {metric} at {at}")
    yield from (_line(scores, found) for found in trials.values())


def _line(scores: Scores, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the record of one item, which has a row of the table for each trial."""
    first = trials[0]
    result, score = scores.ids[first.metric, first.at]
    raw = f"{first.id} {first.digest}"
    reference = [] if first.target is None else [first.target]
    credit = fmean([trial.credit for trial in trials])
    return {
        **scores.head,
        "evaluation_result_id": result,
        "sample_id": first.id,
        "sample_hash": hashlib.sha256("\n".join([raw, *reference]).encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": raw, "reference": reference},
        "output": {"raw": [t.prediction for t in trials if t.prediction is not None]},
        "answer_attribution": [],
        "evaluation": {"score": credit, "is_correct": credit == _best(score)},
    }


def _best(score: Score) -> float | None:
    """Return the best credit that an item can have; None where there is none."""
    least, greatest = score.limits
    return greatest if score.higher_is_better else least
