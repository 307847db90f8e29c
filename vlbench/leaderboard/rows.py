"""The rows of a board that summaries, figures and exports use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from vlbench.results import Result, Score, matching


def publishable(results: Sequence[Result]) -> dict[str, Result]:
    """Return the complete ok rows of models with trained weights, by model.

    A model with two such rows has none here: their data or parameters differ, so that they may not
    be compared, and nothing says which one to take.
    """
    good = [row for row in results if not unpublished(row)]
    often = Counter(row.model for row in good)
    return {row.model: row for row in good if often[row.model] == 1}


def unpublished(row: Result) -> str:
    """Return why a row's numbers are not published; nothing where they are."""
    if row.status != "ok":
        return f"{row.status}, {row.reason}"
    if row.is_partial:
        found = row.counts.get("n", 0)
        return f"partial, {found} of {row.counts['expected']} official rows"
    return "random weights" if is_random(row) else ""


def is_random(row: Result) -> bool:
    """Return whether a row's model has random weights."""
    return str(row.provenance.get("weights", "")).startswith("random:")


def ties_mark(row: Result) -> str:
    """Return what stands beside a score where most choices were tied; nothing elsewhere."""
    return " (mostly ties)" if row.is_mostly_tied else ""


def comparable_sets(rows: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the ok rows by what a fair comparison shares, in the order of each set's first row."""
    sets: dict[str, list[Result]] = {}
    for row in rows:
        if row.status == "ok":
            sets.setdefault(row.comparable, []).append(row)
    return sets


def ranked(rows: Sequence[Result], primary: Mapping[str, Any]) -> list[tuple[Result, Score | None]]:
    """Return rows with their primary score, best first, equal ones as they come, none last."""
    scored = [(row, next(iter(matching(row.scores, primary)), None)) for row in rows]
    return sorted(scored, key=lambda pair: (pair[1] is None, cost(pair[1]) if pair[1] else 0.0))


def cost(score: Score) -> float:
    """Return a number that is lower for a better score."""
    return -score.value if score.higher_is_better else score.value
