"""Sheets for raters, one per criterion, and the key that says which question is whose.

As in arXiv:2002.10832, section "Human Evaluation": a Likert scale from 1 to 5 for readability (from
the question alone), caption relevance (from the caption alone), image relevance (from the image
alone).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from vlbench.leaderboard.export.comma_separated import harmless
from vlbench.leaderboard.judgement.material import Shown


class Sheet(NamedTuple):
    """A criterion: its name, what is shown beside a question, what is asked, the scale's ends."""

    name: str
    beside: str
    asks: str
    ends: tuple[str, str]


SHEETS = (
    Sheet("readability", "", "How well is the question written?", ("not readable", "well written")),
    Sheet(
        "caption_relevance",
        "caption",
        "How relevant is the question to the caption?",
        ("not at all", "very"),
    ),
    Sheet(
        "image_relevance",
        "image",
        "How relevant is the question to the image?",
        ("not at all", "very"),
    ),
)

# The columns that every sheet has, and the answers allowed.
NUMBER, QUESTION, ANSWER = "number", "question", "answer"
ANSWERS = ("1", "2", "3", "4", "5")

# The file of the key, and its schema.
KEY, SCHEMA = "key.json", 1


@dataclass(frozen=True)
class Line:
    """A line of a sheet: its number (from 1), its image and system, and the texts shown."""

    number: int
    image: str
    system: str
    beside: str
    question: str


@dataclass(frozen=True, kw_only=True)
class Key:
    """The system behind each line of each sheet; raters must not see it.

    `questions` is the sha256 of the artifact that the questions were sampled from with this seed.
    """

    schema: int
    task: str
    model: str
    questions: str
    seed: int
    systems: Sequence[str]
    sheets: Mapping[str, Sequence[Line]]


def lines_of(shown: Sequence[Shown], seed: int) -> dict[str, list[Line]]:
    """Return the lines of each sheet: one question per image and system, shuffled per sheet."""
    found = {}
    for i, sheet in enumerate(SHEETS):
        rng = np.random.default_rng([seed, i])
        pairs = [(place, system) for place, one in enumerate(shown) for system in one.questions]
        order = rng.permutation(len(pairs)).tolist()
        found[sheet.name] = [
            _line(sheet, number, shown[pairs[j][0]], *pairs[j]) for number, j in enumerate(order, 1)
        ]
    return found


def _line(sheet: Sheet, number: int, one: Shown, place: int, system: str) -> Line:
    besides = {"": "", "caption": one.caption, "image": image_name(place)}
    return Line(number, one.id, system, besides[sheet.beside], one.questions[system])


def image_name(place: int) -> str:
    """Return the file name of a sampled image, which reveals nothing about it."""
    return f"images/{place + 1}.png"


def columns_of(sheet: Sheet) -> list[str]:
    """Return the columns of a sheet."""
    return [NUMBER, *([sheet.beside] if sheet.beside else []), QUESTION, ANSWER]


def sheet_csv(sheet: Sheet, lines: Sequence[Line]) -> bytes:
    """Return an empty sheet as CSV, in UTF-8 with a byte order mark for spreadsheets."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(columns_of(sheet))
    writer.writerows([*cells_of(sheet, line), ""] for line in lines)
    return written.getvalue().encode("utf-8-sig")


def cells_of(sheet: Sheet, line: Line) -> list[str]:
    """Return the cells of a line before its answer.

    A text that a spreadsheet would take for a formula is prefixed with an apostrophe.
    """
    besides = [line.beside] if sheet.beside else []
    texts = (harmless(" ".join(text.split())) for text in (*besides, line.question))
    return [str(line.number), *texts]


def key_json(key: Key) -> bytes:
    """Return a key as JSON."""
    return (json.dumps(asdict(key), indent=1, ensure_ascii=False) + "\n").encode()
