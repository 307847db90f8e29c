"""Notes of rows: what a reader has to know before the number, in a few lines below a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest

from vlbench.report.texts import one_line
from vlbench.results import Result

# The count that is printed as a note: it is the reason for a lower score.
TRUNCATED = "truncated_texts"

# A number that is a word of its own: not the 3 of `layer3`, 3-4 or 3e-5.
NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-]|[.,]\d)")

# From this many models on, the models of a note that all rows of a table have are not listed.
MANY = 4


def notes_of(row: Result) -> list[str]:
    """Return a row's notes, and how many texts the model truncated, if any."""
    cut = row.counts.get(TRUNCATED, 0)
    return [*filter(None, row.notes), *([count_note(TRUNCATED, cut)] if cut else [])]


def count_note(name: str, count: int) -> str:
    """Return a count as a note."""
    return f"{name.replace('_', ' ')}: {count:,}"


def joined_notes(rows: Iterable[tuple[Result, str]]) -> list[str]:
    """Return the notes of rows, each with its models and the place of the rows, if it is named.

    Notes that differ only in numbers share a line, which has the range of each number.
    """
    models: dict[str, set[str]] = {}
    similar: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row, place in rows:
        models.setdefault(place, set()).add(row.model)
        for note in map(one_line, notes_of(row)):
            similar.setdefault((place, NUMBER.sub("\0", note)), []).append((note, row.model))
    places: dict[tuple[str, str], list[str]] = {}
    for (place, _), notes in similar.items():
        names = [*dict.fromkeys(model for _, model in notes)]
        is_of_all = MANY <= len(names) == len(models[place])
        who = "all models" if is_of_all else ", ".join(names)
        places.setdefault((_range([note for note, _ in notes]), who), []).append(place)
    return [
        f"{note} ({named}{' on ' if any(of) else ''}{'; '.join(of)})"
        for (note, named), of in places.items()
    ]


def _range(notes: list[str]) -> str:
    """Return notes that differ only in numbers as one note, with the range of each number.

    Example:
        >>> _range(["4 of 10 choices are tied", "6 of 10 choices are tied"])
        '4 to 6 of 10 choices are tied'
    """
    numbers = zip(*(NUMBER.findall(note) for note in notes), strict=True)
    ordered = [sorted({*same}, key=lambda text: float(text.replace(",", ""))) for same in numbers]
    ranges = [" to ".join(dict.fromkeys((same[0], same[-1]))) for same in ordered]
    return "".join(
        part for pair in zip_longest(NUMBER.split(notes[0]), ranges, fillvalue="") for part in pair
    )
