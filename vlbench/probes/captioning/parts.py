"""Parts of an outcome: scores with their items, counts and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vlbench.metrics.items import join_items
from vlbench.results import Outcome, Score


@dataclass(frozen=True)
class Part:
    """What one part of a probe finds; `items` are tables."""

    scores: Sequence[Score]
    items: Sequence[Any] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


def outcome(parts: Sequence[Part], artifacts: Mapping[str, Any]) -> Outcome:
    """Return the outcome of all parts; of a count that several have, the first."""
    counts: dict[str, int] = {}
    for part in reversed(parts):
        counts |= part.counts
    return Outcome(
        scores=[score for part in parts for score in part.scores],
        counts=counts,
        artifacts={name: one for name, one in artifacts.items() if one is not None},
        notes=[note for part in parts for note in part.notes],
        items=join_items([table for part in parts for table in part.items]),
    )
