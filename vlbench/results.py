"""What a probe returns, and what becomes of it: Score, Outcome, Result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vlbench.errors import SpecError

if TYPE_CHECKING:  # reading a board must not cost the import of torch
    import pyarrow as pa
    import torch

    Artifact: TypeAlias = torch.Tensor | pa.Table | Path
else:
    Artifact = Any

At = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Score:
    """One number: a metric's value under the conditions `at`, with what it takes to judge it.

    `n` counts the independent items, `chance` is what guessing scores, `floors` what a working
    model should beat, `draws` the value of each trial where a score is a mean of trials.
    Raises ValueError where a number is not finite.
    """

    metric: str
    value: float
    n: int
    at: At = field(default_factory=dict)
    stderr: float | None = None
    ci95: tuple[float, float] | None = None
    chance: float | None = None
    floors: Mapping[str, float] = field(default_factory=dict)
    draws: Sequence[float] = ()
    unit: str = "fraction"
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be written as a number."""
        optional = [x for x in (self.stderr, self.chance, *(self.ci95 or ())) if x is not None]
        conditions = [x for x in self.at.values() if not isinstance(x, str)]
        numbers = [self.value, *optional, *self.floors.values(), *self.draws, *conditions]
        _refuse_foreign([self.n, self.higher_is_better, *numbers])
        if not all(math.isfinite(number) for number in numbers):
            message = f"{self.metric} at {dict(self.at)} is not finite: {self}"
            raise ValueError(message)


@dataclass(frozen=True)
class Outcome:
    """What a probe found: scores, counts, artifacts to keep, and notes to read."""

    scores: Sequence[Score]
    counts: Mapping[str, int] = field(default_factory=dict)
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be written as a number."""
        _refuse_foreign(list(self.counts.values()))
        for name, artifact in self.artifacts.items():
            module = type(artifact).__module__.partition(".")[0]
            if not isinstance(artifact, Path) and module not in {"torch", "pyarrow"}:
                kind = type(artifact).__name__
                raise TypeError(f"artifact '{name}' is a {kind}; give a tensor, a table or a path")


@dataclass(frozen=True, kw_only=True)
class Result:
    """One row of a task's board: what one model scored, or why it did not."""

    task: str
    version: int
    paper: str
    primary: Mapping[str, Any]
    model: str
    status: str  # ok, skipped or failed
    reason: str = ""
    comparable: str = ""
    request: str = ""
    scores: Sequence[Score] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    artifacts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Return the row as the board writes it: plain values, every key."""
        row = asdict(self)
        for key in ("task", "version", "paper", "primary"):
            del row[key]
        return row


def require_primary(outcome: Outcome, primary: Mapping[str, Any], where: str) -> None:
    """Raise SpecError where a task's primary is not exactly one of the scores."""
    found = matching(outcome.scores, primary)
    if len(found) != 1:
        given = sorted({f"{s.metric} at {dict(s.at)}" for s in outcome.scores})
        raise SpecError(f"{where}: primary {primary} is {len(found)} of the scores {given}")


def counts_of(outcome: Outcome, primary: Mapping[str, Any], missing: int) -> dict[str, int]:
    """Return a row's counts: `expected` exceeds `n` by the official rows that are missing."""
    n = matching(outcome.scores, primary)[0].n
    known = {"n": n, "ties": 0, "truncated_texts": 0, "clusters": n, **outcome.counts}
    return {"expected": known["n"] + missing} | known


def _refuse_foreign(numbers: Sequence[Any]) -> None:
    """Raise TypeError for NumPy's and torch's numbers, which JSON cannot hold."""
    for number in numbers:
        if type(number) not in {int, float, bool}:
            raise TypeError(f"{number!r} is a {type(number).__name__}; give an int or a float")


def read_result(board: Mapping[str, Any], row: Mapping[str, Any]) -> Result:
    """Return a board's row as the result that it was written from."""
    head = {key: board[key] for key in ("task", "version", "paper", "primary")}
    scores = [
        Score(**score | {"ci95": score["ci95"] and tuple(score["ci95"])}) for score in row["scores"]
    ]
    return Result(**head | {**row, "scores": scores})


def matching(scores: Sequence[Score], primary: Mapping[str, Any]) -> list[Score]:
    """Return the scores that a `{metric, at}` names: one, where a task's primary is right."""
    at = dict(primary.get("at", {}))
    return [s for s in scores if s.metric == primary["metric"] and dict(s.at) == at]
