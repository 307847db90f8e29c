"""Similarity of models: correlations of their matrices. arXiv:2104.08313, section 4.

Each model is compared with each other model, also across the tasks of a group. The matrices are
distances between classes, or kernels of images, whose correlation is the debiased CKA.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from vlbench.boards.artifacts import read_table, read_tensor
from vlbench.boards.board import Board
from vlbench.errors import DataError
from vlbench.metrics.matrix_kinds import KINDS, Kind
from vlbench.metrics.rdm_correlation import (
    Interval,
    correlations,
    jackknife,
    left_out,
    noise_ceiling,
    permuted,
    standardised,
)
from vlbench.report.data_sets import published_by_data
from vlbench.report.rows import matrices_of
from vlbench.results import Result, Score, score_row

Floats = NDArray[np.float64]
# With a fixed seed each build permutes the classes in the same way.
SEED = 0
# The lower and upper bound of a noise ceiling, as scores.
CEILING = ("noise_ceiling_lower", "noise_ceiling_upper")
NO_CHANCE = "an upper bound of the correlation beside it; guessing does not reach it"


class Member(NamedTuple):
    """One model in a comparison, the classes that its matrix is over, and their categories.

    For a kernel, `classes` are images, and `categories` are the blocks that the jackknife leaves
    out. `name` is `model`, or longer if the model is on two boards. The matrix is read only when
    needed: hundreds of matrices of 1,000 classes are gigabytes. `reliability` is the row's primary
    score if that is a correlation.
    """

    kind: Kind
    name: str
    model: str
    read_matrix: Callable[[], NDArray[np.float32]]
    classes: list[str]
    categories: list[str]
    comparable: str
    reliability: float | None = None
    is_control: bool = False


def joined(output: Path, boards: Sequence[Board]) -> tuple[list[Member], dict[str, str]]:
    """Return the models that can be compared, and for each other publishable row why it cannot.

    On each board, the data set with the most rows is taken, and of these the rows with the most
    frequent `comparable`. All matrices must be of one kind, over the same classes as the first
    matrix.
    """
    kind = kind_of(boards)
    members: list[Member] = []
    left_out: dict[str, str] = {}
    for board in boards:
        by_name = published_by_data(board.results)
        largest = max(by_name.values(), key=len, default={})
        common = Counter(row.comparable for _, row in sorted(largest.items())).most_common(1)
        # Rows of the largest data set come first, and keep the names of their models.
        in_order = sorted(by_name.values(), key=lambda group: group is not largest)
        for model, row in (pair for group in in_order for pair in sorted(group.items())):
            name = _name(model, board.task, [*(m.name for m in members), *left_out], boards[0].task)
            member = _member(output, kind, name, row)
            if isinstance(member, str):
                left_out[name] = member
            elif row.comparable != common[0][0]:
                left_out[name] = f"not comparable with most rows of {board.task}"
            elif members and _classes(member) != _classes(members[0]):
                others = f"its {kind.over} differ from those of {members[0].name}"
                left_out[name] = f"its matrix is over {others}"
            else:
                members.append(member)
    return members, left_out


def kind_of(boards: Sequence[Board]) -> Kind:
    """Return the kind of matrix that boards compare; if rows keep none, distances."""
    return KINDS[next(filter(None, map(matrices_of, boards)), next(iter(KINDS)))]


def _classes(member: Member) -> tuple[list[str], list[str]]:
    return member.classes, member.categories


def _name(model: str, task: str, names: Sequence[str], first: str) -> str:
    others = [word for word in task.split("_") if word not in first.split("_")]
    return f"{model} ({' '.join(others) or task})" if model in names else model


def _member(output: Path, kind: Kind, name: str, row: Result) -> Member | str:
    """Return a row's matrix and classes, or why they cannot be read."""
    try:
        matrix = read_tensor(output, row, kind.matrix)
        table = read_table(output, row, kind.over, ["name", "category"])
    except DataError as error:
        return str(error)
    classes, categories = ([line[key] for line in table] for key in ("name", "category"))
    if matrix.shape != (len(classes) * (len(classes) - 1) // 2,):
        shape = list(matrix.shape)
        return f"its matrix of shape {shape} is not that of {len(classes)} {kind.over}"
    score, read_matrix = row.primary_score, partial(read_tensor, output, row, kind.matrix)
    is_reliability = score and score.unit == "correlation" and bool(kind.rank)
    reliability = float(score.value) if score and is_reliability else None
    return Member(
        kind,
        name,
        row.model,
        read_matrix,
        classes,
        categories,
        row.comparable,
        reliability,
        row.is_control,
    )


class Similarities(NamedTuple):
    """The correlations of K matrices: Pearson's and, if the kind has ranks, Spearman's, [K, K].

    For Pearson's correlation also the intervals of each row, of the row's mean over the other
    matrices, and the floors.
    """

    pearson: Floats
    spearman: Floats | None
    intervals: Sequence[Interval]
    of_means: Sequence[Interval]
    floors: Floats


def similarities(members: Sequence[Member]) -> Similarities:
    """Return the correlations of the matrices of two or more models.

    Intervals come from a jackknife over the categories of the classes. A floor is the 95th
    percentile under 100 permutations of the classes of one matrix, and 100 of the other. The rank
    correlation has neither interval nor floor, as in arXiv:2104.08313; Kendall's takes .1 s a pair,
    hours for hundreds of models.
    """
    count = len(members)
    table = standardised((member.read_matrix() for member in members), count, np.float32)
    pearson, floors = correlations(table), permuted(table, seed=SEED)
    groups = np.unique(members[0].categories, return_inverse=True)[1]
    intervals: list[Interval] = []
    of_means: list[Interval] = []
    for block in left_out(table, groups):
        for less in block.transpose(1, 0, 2):
            i = len(intervals)
            mean, mean_less = (r[..., _others(members, i)].mean(-1) for r in (pearson[i], less))
            of_means.append(jackknife(mean, mean_less))
            intervals.append(jackknife(pearson[i], less))
    del table  # 1 GB for 500 matrices of 1,000 classes
    spearman = None
    if members[0].kind.rank:
        ranks = (rankdata(member.read_matrix()) for member in members)
        spearman = correlations(standardised(ranks, count, np.float32))
    return Similarities(pearson, spearman, intervals, of_means, floors)


def similarity_rows(members: Sequence[Member], matrix: Similarities) -> Iterator[dict[str, Any]]:
    """Yield a row for each model: its correlation with each other model, and their mean.

    The mean leaves out controls. Each correlation and mean has the bounds of the noise ceiling.
    """
    kind, classes, places = members[0].kind, len(members[0].classes), range(len(members))
    keys = json.dumps(sorted({member.comparable for member in members}))
    comparable = "sha256:" + hashlib.sha256(keys.encode()).hexdigest()
    ceilings = _ceilings(members)
    for i, member in enumerate(members):
        others = _others(members, i)
        mean = float(matrix.pearson[i, others].mean())
        scores = [_score(kind.mean, mean, classes, matrix.of_means[i])]
        scores += _ceiling(ceilings[:, i, others].mean(1), classes)
        errors, (lows, highs) = matrix.intervals[i]
        for j in filter(i.__ne__, places):
            at = {"with": members[j].name}
            floor = {kind.floor: float(matrix.floors[i, j])}
            around, value = Interval(errors[j], (lows[j], highs[j])), float(matrix.pearson[i, j])
            scores.append(_score(kind.pair, value, classes, around, at, floor))
            scores += _ceiling(ceilings[:, i, j], classes, at)
            if matrix.spearman is not None:
                scores.append(_score(kind.rank, float(matrix.spearman[i, j]), classes, None, at))
        yield _row(member.name, scores, classes, comparable, member)


def _others(members: Sequence[Member], i: int) -> list[int]:
    """Return the places of the models that the mean of model i is over.

    These are all other models except controls, which ignore their inputs, so that a mean does not
    depend on how many of them were run; if all others are controls, it is over them.
    """
    others = [j for j in range(len(members)) if j != i]
    return [j for j in others if not members[j].is_control] or others


def _ceilings(members: Sequence[Member]) -> Floats:
    """Return the bounds [2, K, K] of the correlation of two measured matrices.

    They hold if the true matrices agree. Each is the product of the bounds of both matrices, or NaN
    if a matrix has no reliability.
    """
    bounds = noise_ceiling(np.array([member.reliability for member in members], np.float64))
    return np.stack([np.outer(bound, bound) for bound in bounds])


def _ceiling(bounds: Floats, classes: int, at: Mapping[str, str] | None = None) -> list[Score]:
    """Return the bounds of a noise ceiling as scores; empty without reliability."""
    if np.isnan(bounds).any():
        return []
    return [
        Score(metric, float(bound), classes, at or {}, unit="correlation", no_chance=NO_CHANCE)
        for metric, bound in zip(CEILING, bounds, strict=True)
    ]


def left_out_rows(left_out: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each model that is not compared, with the reason."""
    return [
        _row(name, [], 0, "") | {"status": "skipped", "reason": reason}
        for name, reason in left_out.items()
    ]


def _score(
    metric: str,
    value: float,
    classes: int,
    around: Interval | None,
    at: Mapping[str, str] | None = None,
    floors: Mapping[str, float] | None = None,
) -> Score:
    return Score(
        metric,
        value,
        classes,
        at or {},
        chance=0.0,
        floors=floors or {},
        unit="correlation",
        **(around._asdict() if around else {}),
    )


def _row(
    name: str,
    scores: Sequence[Score],
    classes: int,
    comparable: str,
    member: Member | None = None,
) -> dict[str, Any]:
    return {
        "model": name,
        "status": "ok",
        "reason": "",
        "comparable": comparable,
        "scores": [score_row(score) for score in scores],
        "counts": {"n": classes, "expected": classes},
        **({"provenance": {"control": True}} if member and member.is_control else {}),
    }
