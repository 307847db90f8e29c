"""Published values beside ours: the `reference:` list of a task, and how far a score lies off."""

from __future__ import annotations

from typing import NamedTuple

from vlbench.catalog.specs import TaskSpec
from vlbench.results import Score, matching


class Published(NamedTuple):
    """A paper's value of a score, and where it stands there.

    `difference` is ours minus the paper's, and `in_stderr` the same in standard errors of ours;
    None where our score has none, or one of 0.
    """

    value: float
    where: str
    difference: float
    in_stderr: float | None


def published(spec: TaskSpec, model: str, score: Score) -> Published | None:
    """Return what a task's file says was published for this model and score; None for nothing."""
    for one in spec.reference:
        if one["model"] == model and matching([score], one):
            difference = score.value - one["value"]
            in_stderr = difference / score.stderr if score.stderr else None
            return Published(one["value"], one["where"], difference, in_stderr)
    return None
