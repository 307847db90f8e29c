"""How alike models are: correlations of the matrices that rows keep. arXiv:2104.08313, section 4.

A group of tasks whose rows keep an artifact `rdm` is joined, not averaged: each row with a matrix
is a model of its own, and all are compared with all. A model that stands on two of the boards has
its plain name for the first, and for another also the words that tell that task's name from the
first's: `clip-rn50 (text)`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors.numpy import load
from scipy.stats import kendalltau, rankdata

from vlbench.leaderboard.summaries import publishable
from vlbench.metrics.rdm_correlation import (
    class_draws,
    correlations,
    interval,
    permuted,
    redrawn,
    standardised,
)
from vlbench.results import Score

Row = Mapping[str, Any]
Floats = NDArray[np.float64]

PRIMARY = {"metric": "mean_rdm_correlation", "at": {}}

# A row that stands is kept, whatever has become of its files.
AGAIN = "run the task again with --overwrite"

# Classes are drawn and permuted anew in each build, the same in all.
SEED = 0


class Member(NamedTuple):
    """A matrix among those compared: float32 [P], over these classes, of this row."""

    name: str
    matrix: NDArray[np.float32]
    classes: list[str]
    comparable: str


def joined(output: Path, boards: Sequence[Row]) -> tuple[list[Member], dict[str, str]]:
    """Return the matrices that may be compared, and of each other publishable row why not.

    Those of one board must be of the same comparable, which most of them are of; all must be over
    the classes of the first.
    """
    members: list[Member] = []
    left_out: dict[str, str] = {}
    for board in boards:
        rows = publishable(board["rows"])
        common = Counter(row["comparable"] for _, row in sorted(rows.items())).most_common(1)
        for model, row in sorted(rows.items()):
            name = _name(model, board["task"], [*(m.name for m in members), *left_out], boards)
            found = _member(output, name, row)
            if isinstance(found, str):
                left_out[name] = found
            elif row["comparable"] != common[0][0]:
                left_out[name] = f"not comparable with the most rows of {board['task']}"
            elif members and found.classes != members[0].classes:
                left_out[name] = f"its matrix is over other classes than that of {members[0].name}"
            else:
                members.append(found)
    return members, left_out


def similarity_rows(members: Sequence[Member]) -> list[dict[str, Any]]:
    """Return a row for each model: its correlation with each other one, and their mean.

    `rdm_correlation` is Pearson's, with the interval of 1,000 draws of the classes and, as a floor,
    what 95 % of 100 permutations of the classes stay below, each way round; `rdm_spearman` and
    `rdm_kendall` (tau b) are without.
    """
    matrices = np.stack([member.matrix for member in members])
    classes = len(members[0].classes)
    values = correlations(matrices)
    draws = redrawn(matrices, class_draws(classes, seed=SEED))
    floors = permuted(matrices, seed=SEED)
    ranked = {
        "rdm_spearman": correlations(rankdata(matrices, axis=1)),
        "rdm_kendall": _kendall(matrices),
    }
    keys = json.dumps(sorted({member.comparable for member in members}))
    comparable = "sha256:" + hashlib.sha256(keys.encode()).hexdigest()
    rows = []
    for i, member in enumerate(members):
        others = [j for j in range(len(members)) if j != i]
        mean = float(values[i, others].mean())
        scores = [_score("mean_rdm_correlation", mean, classes, draws[i, others].mean(0))]
        for j in others:
            at = {"with": members[j].name}
            floor = {"class_permutations": float(floors[i, j])}
            scores.append(
                _score("rdm_correlation", float(values[i, j]), classes, draws[i, j], at, floor)
            )
            scores += [_score(m, float(v[i, j]), classes, at=at) for m, v in ranked.items()]
        rows.append(_row(member.name, scores, classes, comparable))
    return rows


def left_out_rows(left_out: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows that say why a model is not compared."""
    return [
        _row(name, [], 0, "") | {"status": "skipped", "reason": reason}
        for name, reason in left_out.items()
    ]


def _name(model: str, task: str, taken: Sequence[str], boards: Sequence[Row]) -> str:
    first = boards[0]["task"].split("_")
    others = [word for word in task.split("_") if word not in first]
    return f"{model} ({' '.join(others) or task})" if model in taken else model


def _member(output: Path, name: str, row: Row) -> Member | str:
    """Return a row's matrix and classes, or why they cannot be read."""
    parts = {}
    for part in ("rdm", "classes"):
        if part not in row["artifacts"]:
            return f"its row keeps no {part}"
        kept = row["artifacts"][part]
        if not (output / kept["file"]).is_file():
            return f"{kept['file']} is absent; {AGAIN}"
        parts[part] = (output / kept["file"]).read_bytes()
        if kept["sha256"] != "sha256:" + hashlib.sha256(parts[part]).hexdigest():
            return f"{kept['file']} is not the file that its row was written with; {AGAIN}"
    classes = pq.read_table(BytesIO(parts["classes"]))["name"].to_pylist()
    return Member(name, load(parts["rdm"])["data"], classes, row["comparable"])


def _kendall(matrices: NDArray[Any]) -> Floats:
    """Return Kendall's tau b, [K, K]; 0 where a matrix is constant."""
    found = np.eye(len(matrices))
    varied = [bool(z.any()) for z in standardised(matrices)]
    for i, j in combinations(range(len(matrices)), 2):
        if varied[i] and varied[j]:
            found[i, j] = found[j, i] = kendalltau(matrices[i], matrices[j]).statistic
    return found


def _score(
    metric: str,
    value: float,
    classes: int,
    draws: Floats | None = None,
    at: Mapping[str, str] | None = None,
    floors: Mapping[str, float] | None = None,
) -> Score:
    bounds = {} if draws is None else interval(draws)._asdict()
    return Score(
        metric,
        value,
        classes,
        at or {},
        chance=0.0,
        floors=floors or {},
        unit="correlation",
        **bounds,
    )


def _row(name: str, scores: Sequence[Score], classes: int, comparable: str) -> dict[str, Any]:
    return {
        "model": name,
        "status": "ok",
        "reason": "",
        "comparable": comparable,
        "scores": [asdict(score) for score in scores],
        "counts": {"n": classes, "expected": classes},
    }
