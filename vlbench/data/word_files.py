"""Small word files: the visual word of each class, analogy questions, and judged word pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.data.texts import read_text
from vlbench.errors import DataError


class Question(NamedTuple):
    """An analogy: the first word is to the second as the third is to the fourth."""

    section: str
    words: Sequence[str]


def read_visual_words(path: Path) -> dict[str, str]:
    """Return the lower-case word of each class by its wnid. Raises DataError."""
    found = {}
    for number, line in enumerate(_lines(path), 1):
        wnid, tab, word = line.partition("\t")
        if not tab or not word.strip():
            raise DataError(f"{path.name}, line {number}: wanted a wnid, a tab, a word: {line!r}")
        found[wnid.strip()] = word.strip().lower()
    return found


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a file in the format of questions-words.txt. Raises DataError."""
    found, section = [], ""
    for number, line in enumerate(_lines(path), 1):
        words = line.split()
        if line.startswith(": "):
            section = line[2:].strip()
        elif len(words) == 4 and section:
            found.append(Question(section, words))
        else:
            wanted = "': section', then lines of four words"
            raise DataError(f"{path.name}, line {number}: wanted {wanted}, not {line!r}")
    return found


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Return the word pairs of a file of lines `word, tab, word, tab, number`. Raises DataError."""
    found = []
    for number, line in enumerate(_lines(path), 1):
        parts = line.split("\t")
        if line.startswith("#"):
            continue
        if len(parts) != 3 or not _is_number(parts[2]):
            wanted = "word, tab, word, tab, number"
            raise DataError(f"{path.name}, line {number}: wanted {wanted}, not {line!r}")
        found.append((parts[0], parts[1]))
    return found


def _lines(path: Path) -> list[str]:
    return read_text(path).rstrip("\n").split("\n")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
