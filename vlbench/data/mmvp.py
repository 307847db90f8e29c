"""MMVP: pairs of images that are nearly equal for CLIP. Tong et al. 2024, arXiv:2401.06209.

The files are in MMVP/MMVP on the hub: Questions.csv with the columns Index, Question, Options
("(a) Open (b) Closed") and Correct Answer ("(a)"), and MMVP Images/1.jpg to 300.jpg. Two
consecutive images have the same question and opposite answers.

The labels of 99, 100, 279 and 280 were corrected later (github.com/EvolvingLMMs-Lab/lmms-eval,
issue 1018). Labels are read from the table unchanged, and a note states which version they are.
"""

from __future__ import annotations

import csv
import re
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from vlbench.data.coco_files import is_number, read_text
from vlbench.data.foils import require_text
from vlbench.data.images import published_images
from vlbench.data.pictures import pictures
from vlbench.data.presence import begin_reading, require_files, require_images
from vlbench.data.records import Data, Split, value_column
from vlbench.errors import DataError
from vlbench.system.files import MOST_ANNOTATIONS

HOME = "the hub's MMVP/MMVP"
TABLE, IMAGES = "Questions.csv", "MMVP Images"
OPTION = re.compile(r"\(([ab])\)\s*(.*?)\s*(?=\([ab]\)|$)", re.DOTALL)
COUNT = 300

# The labels that were corrected, in the first and in the corrected version.
PUBLISHED = {99: "(a)", 100: "(b)", 279: "(a)", 280: "(b)"}
CORRECTED = {99: "(b)", 100: "(a)", 279: "(b)", 280: "(a)"}


class _Row(NamedTuple):
    number: int
    question: str
    options: list[str]
    answer: str


def mmvp(*, root: Path, pixels: bool = True) -> Data:
    """Return the 300 questions: `image`, `picture`, `question`, `options`, `right_answers`, `pair`.

    `pair` names the two items of a question, which are a cluster. Raises DataAbsent and DataError.

    Args:
        root: folder with Questions.csv and the folder MMVP Images, which are identified by their
            names.
        pixels: whether images are read; recorded answers do not need them.
    """
    require_files("MMVP", HOME, root / TABLE)
    absent = require_images("MMVP's images", HOME, root / IMAGES, pixels=pixels)
    begin_reading()
    rows = _read(root / TABLE)
    names = [f"{row.number}.jpg" for row in rows]
    column = published_images("MMVP", root / IMAGES, names, listed=TABLE, absent=absent)
    split = pictures(column, names, None)
    split["question"] = value_column([row.question for row in rows], "text")
    split["options"] = value_column([row.options for row in rows])
    split["right_answers"] = value_column([[row.answer] for row in rows])
    for name in ("pair", "cluster"):
        split[name] = value_column([str((row.number + 1) // 2) for row in rows])
    answers = {row.number: row.answer for row in rows if row.number in PUBLISHED}
    versions = {"as first published": PUBLISHED, "as corrected later": CORRECTED}
    version = next(
        (name for name, labels in versions.items() if labels == answers), "of neither version"
    )
    notes = [f"labels of {', '.join(map(str, PUBLISHED))}: {version}"]
    return Data(splits={"test": Split(split)}, expected={"test": COUNT}, notes=notes)


def _read(file: Path) -> list[_Row]:
    """Return the rows of the table. Raises DataError, naming the row."""
    rows = []
    table = csv.DictReader(StringIO(read_text(file, most=MOST_ANNOTATIONS)), strict=True)
    try:
        for place, cells in enumerate(table, 1):
            rows.append(_row(place, cells))
    except (csv.Error, KeyError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{file.name}, row {len(rows) + 1}: {why:.200}; fetch it again") from error
    if not rows:
        raise DataError(f"{file.name} has no rows; fetch it again")
    return rows


def _row(place: int, cells: dict[str, str]) -> _Row:
    options = OPTION.findall(require_text(cells["Options"]))
    if [letter for letter, _ in options] != ["a", "b"] or not all(text for _, text in options):
        raise ValueError(f"the options {cells['Options']!r:.60} are not (a) and (b)")
    if cells["Correct Answer"] not in ("(a)", "(b)"):
        raise ValueError(f"the answer {cells['Correct Answer']!r:.40} is neither (a) nor (b)")
    if not is_number(cells["Index"]) or int(cells["Index"]) != place:
        raise ValueError(f"the index is {cells['Index']!r:.20}, not {place}")
    question, texts = require_text(cells["Question"]), [text for _, text in options]
    return _Row(place, question, texts, cells["Correct Answer"])
