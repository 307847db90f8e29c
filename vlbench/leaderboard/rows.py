"""The rows of a board that summaries, figures and exports use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vlbench.results import Result


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
