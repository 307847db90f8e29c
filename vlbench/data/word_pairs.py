"""Pairs of words with human similarity ratings.

WordSim-353 (Finkelstein et al. 2002, doi:10.1145/503104.503110, section 5) and SimLex-999 (Hill,
Reichart and Korhonen 2015, arXiv:1408.3456) are part of gensim; other sets, such as MEN, SimVerb,
RG-65 and RW, are files that the user provides.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from vlbench.data.coco_files import read_text
from vlbench.data.names import composed
from vlbench.data.presence import begin_reading, package_file, require_files
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.errors import DataError

# The names of the columns, if a file's first line names them.
COLUMNS = ("word_a", "word_b", "score")

# Separators of the cells: the first of these that is in the first line, or else white space.
SEPARATORS = "\t;,"

# The sets inside gensim: their names, files and sizes.
INSIDE_GENSIM = {
    "wordsim353": ("WordSim-353", "test/test_data/wordsim353.tsv", 353),
    "simlex999": ("SimLex-999", "test/test_data/simlex999.txt", 999),
}


class RatedPair(NamedTuple):
    """A pair of words, and its human similarity rating."""

    word_a: str
    word_b: str
    score: float


def gensim_word_pairs(*, name: Literal["wordsim353", "simlex999"]) -> Data:
    """Return a set that is distributed with gensim, with the columns of `word_pairs`.

    Args:
        name: `wordsim353` or `simlex999`.
    """
    what, inside, rows = INSIDE_GENSIM[name]
    file = package_file(what, "gensim", "gensim", inside)
    begin_reading()
    return _data(read_judged(file), {"test": rows})


def word_pairs(*, root: Path, file: str = "pairs.csv", columns: list[str] | None = None) -> Data:
    """Return the pairs of a file as split "test", with columns word_a, word_b and score.

    Raises DataAbsent for a missing file, and the DataError of `read_judged`.

    Args:
        root: folder of the file.
        file: name of the file, with a pair per line.
        columns: names of three columns of the first line for word_a, word_b and score, or their
            numbers from 1; None: columns of these names, or the first three.
    """
    require_files(f"the word pairs {file}", "your own word pairs", root / file)
    begin_reading()
    return _data(read_judged(root / file, columns), {})


def read_judged(path: Path, columns: Sequence[str] | None = None) -> list[RatedPair]:
    """Return the pairs of a text file with one pair per line.

    Cells are separated by tabs, semicolons, commas or white space: the first of these that is in
    the first line. With semicolons and commas, a cell may be quoted. `columns` names three columns
    of the first line, or numbers them from 1 if no line names them. None means word_a, word_b and
    score if the first line names them, and otherwise the first three. Blank lines and lines that
    begin with # are left out. Raises DataError, with the line.
    """
    lines = [
        (f"{path.name}, line {number}", composed(line))
        for number, line in enumerate(read_text(path).split("\n"), 1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines:
        raise DataError(f"{path.name} has no word pairs")
    separator = next((mark for mark in SEPARATORS if mark in lines[0][1]), "")
    rows = [(where, _cells(where, line, separator)) for where, line in lines]
    places, has_header = _places(rows[0], columns)
    judged = [_judged(where, cells, places) for where, cells in rows[has_header:]]
    if not judged:
        raise DataError(f"{path.name} has no word pairs")
    return judged


def _data(judged: Sequence[RatedPair], expected: dict[str, int]) -> Data:
    first, second, scores = zip(*judged, strict=True)
    columns: dict[str, Column] = {
        "word_a": value_column(first, "text"),
        "word_b": value_column(second, "text"),
        "score": value_column(scores),
    }
    return Data(splits={"test": Split(columns)}, expected=expected)


def _cells(where: str, line: str, separator: str) -> list[str]:
    if separator not in {";", ","}:
        return [cell.strip() for cell in line.split(separator or None)]
    try:
        (cells,) = csv.reader([line], delimiter=separator, strict=True)
    except csv.Error as error:
        raise DataError(f"{where}, cannot be read as CSV: {error}") from error
    return [cell.strip() for cell in cells]


def _places(first: tuple[str, list[str]], columns: Sequence[str] | None) -> tuple[list[int], bool]:
    """Return the columns of words and score in a line, and whether the first line names them."""
    where, cells = first
    heads = COLUMNS if columns is None else tuple(columns)
    if len(heads) != len(COLUMNS):
        what = f"{len(heads)} columns ({', '.join(heads)})"
        raise DataError(f"{where}: {what}; three are needed, for two words and a score")
    if set(heads) <= set(cells):
        return [cells.index(name) for name in heads], True
    numbers = ("1", "2", "3") if columns is None else heads
    if not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise DataError(f"{where}: no columns {', '.join(heads)}; there are {', '.join(cells)}")
    return [int(number) - 1 for number in numbers], False


def _judged(where: str, cells: Sequence[str], places: Sequence[int]) -> RatedPair:
    if max(places) >= len(cells):
        raise DataError(f"{where}: {len(cells)} cells; column {max(places) + 1} is needed")
    first, second, score = (cells[place] for place in places)
    if not (first and second):
        raise DataError(f"{where}: a word is empty")
    try:
        value = float(score)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        hint = "give the columns of the two words and the score as `columns`"
        raise DataError(f"{where}: the score is {score!r:.40}, not a number; {hint}")
    return RatedPair(first, second, value)
