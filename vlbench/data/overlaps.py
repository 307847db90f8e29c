"""Rows that two splits share, by the content of what identifies an example."""

from __future__ import annotations

from itertools import permutations

from vlbench.data.records import Data, Split

# Columns that identify an example by its content, the first that a split has.
CONTENT = ("image", "picture", "text", "caption")


def content(split: Split) -> list[str] | None:
    """Return the digest of the content of each row; None where the source has none."""
    column = next((split[name] for name in CONTENT if name in split.columns), None)
    if column is None or not (column.digests or column.kind == "text"):
        return None
    if column.digests:
        return [column.digests[row] for row in column.rows]
    return [str(text) for text in column]


def overlaps(data: Data) -> dict[tuple[str, str], int]:
    """Return, for each two splits in both orders, how many rows of the first the second has, too.

    Splits without known content share nothing.
    """
    known = {name: content(split) or [] for name, split in data.splits.items()}
    sets = {name: set(found) for name, found in known.items()}
    return {
        (one, other): sum(digest in sets[other] for digest in known[one])
        for one, other in permutations(known, 2)
    }
