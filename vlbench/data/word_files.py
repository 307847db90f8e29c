"""Small word files: the visual word of each class, analogy questions, and rated word pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.data.coco_files import read_text
from vlbench.data.names import composed
from vlbench.errors import DataError


class Analogy(NamedTuple):
    """An analogy: the first word is to the second as the third is to the fourth."""

    section: str
    words: Sequence[str]


def read_visual_words(path: Path) -> dict[str, str]:
    """Return the lower-case word of each class by its wnid. Raises DataError."""
    words: dict[str, str] = {}
    for number, line in enumerate(_lines(path), 1):
        wnid, tab, word = line.partition("\t")
        if not tab or not word.strip():
            raise DataError(
                f"{path.name}, line {number}: must be a wnid, a tab, a word, not {line!r}"
            )
        word = word.strip().lower()
        if (first := words.setdefault(wnid.strip(), word)) != word:
            raise DataError(
                f"{path.name}, line {number}: {wnid} is {word!r}, and {first!r} in an earlier line"
            )
    return words


def read_questions(path: Path) -> list[Analogy]:
    """Return the questions of a file in the format of questions-words.txt. Raises DataError."""
    questions, section = [], ""
    for number, line in enumerate(_lines(path), 1):
        words = line.split()
        if line.startswith(": "):
            section = line[2:].strip()
        elif len(words) == 4 and section:
            questions.append(Analogy(section, words))
        else:
            form = "': section', then lines of four words"
            raise DataError(f"{path.name}, line {number}: must be {form}, not {line!r}")
    return questions


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Return the word pairs of a file that `read_judged_pairs` reads."""
    return [(first, second) for first, second, _ in read_judged_pairs(path)]


def read_judged_pairs(path: Path) -> list[tuple[str, str, float]]:
    """Return the pairs and ratings of lines `word, tab, word, tab, number`. Raises DataError.

    A .csv has commas and no quotes, and may have a header.
    """
    delimiter, pairs = "," if path.suffix.lower() == ".csv" else "\t", []
    between = "comma" if delimiter == "," else "tab"
    for number, line in enumerate(_lines(path), 1):
        parts = line.split(delimiter)
        is_pair = len(parts) == 3 and _is_number(parts[2]) and '"' not in line
        if line.startswith("#") or (number == 1 and delimiter == "," and not is_pair):
            continue
        if not is_pair:
            form = f"word, {between}, word, {between}, number"
            raise DataError(f"{path.name}, line {number}: must be {form}, not {line!r}")
        pairs.append((parts[0], parts[1], float(parts[2])))
    return pairs


def _lines(path: Path) -> list[str]:
    return [composed(line) for line in read_text(path).rstrip("\n").split("\n")]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
