"""Whether a question names a thing that its image shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlbench.data.records import Split


def shown_names(split: Split, columns: Sequence[str]) -> list[frozenset[str]]:
    """Return the names of each image's things that columns of the split list, and their plurals."""
    rows = [[frozenset(map(forms, names)) for names in split[column]] for column in columns]
    return [
        frozenset(form for names in of_image for name in names for form in name)
        for of_image in zip(*rows, strict=True)
    ]


def forms(name: str) -> frozenset[str]:
    """Return a noun in lower case, and what may be its regular plural."""
    noun = name.lower()
    ending = {f"{noun[:-1]}ies"} if noun.endswith("y") else set()
    return frozenset({noun, f"{noun}s", f"{noun}es"} | ending)


def names_a_thing(question: str, names: frozenset[str]) -> bool:
    """Return whether one of the question's words is among the names."""
    return not names.isdisjoint(re.findall(r"\w+", question.lower()))
