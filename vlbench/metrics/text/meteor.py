"""METEOR 1.5 (Denkowski and Lavie 2014): one Java process for all captions of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from vlbench.errors import DataError
from vlbench.metrics.statistics import Floats
from vlbench.metrics.text.java import Java, jar, one_line

# Statistics of a caption.
SIZE = 23


class Meteor:
    """The statistics of captions against their references; leaving the `with` ends the process.

    It starts at once, and takes 5 s and 1.2 GB of memory before the first answer.
    """

    def __init__(self) -> None:
        words = ["-Xmx2G", "-jar", jar("meteor/meteor-1.5.jar"), "-", "-", "-stdio", "-l", "en"]
        self._java = Java("METEOR", [*words, "-norm"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._java.close()

    def statistics(self, pairs: Iterable[tuple[str, Sequence[str]]]) -> Floats:
        """Return the statistics [N, 23] of captions, each with its references.

        Their sums give the score by `CORPORA["meteor"]` of `vlbench.metrics.corpus`. A caption that
        is the whole reference counts as no piece, as in the sums of the jar. Raises DataError where
        the process ends or says anything else.
        """
        lines = [_line(caption, references) for caption, references in pairs]
        rows = [answer.split() for answer in self._java.ask(lines)]
        if any(len(row) != SIZE for row in rows):
            wrong = next(i for i, row in enumerate(rows) if len(row) != SIZE)
            raise DataError(f"METEOR said '{' '.join(rows[wrong])}' of '{lines[wrong]}'")
        table = np.array(rows, np.float64).reshape(-1, SIZE)
        whole = (table[:, 0:2] == table[:, 21:23]).all(1) & (table[:, 20] == 1)
        table[whole, 20] = 0
        return table


def _line(caption: str, references: Sequence[str]) -> str:
    """Return what METEOR is asked. Bars part its fields, and so cannot be words."""
    texts = (one_line(text.replace("|||", "")) for text in (*references, caption))
    return " ||| ".join(("SCORE", *texts))
