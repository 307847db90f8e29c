"""Which words of a caption name which categories, by a list of fine-grained names.

The list is NeuralBabyTalk's `coco_class_name.txt` (Lu et al. 2018, arXiv:1803.09845): a line a
category, first its name, then others. As there, words are compared by their lemma, and a name of
two words goes before, and blocks, one of a single word. Where we depart: a name written as two
words or as one is the same name; a name that says what kind the noun after it is (`train tracks`)
and `orange` where it is a colour name nothing; and no category has to be in the image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from vlbench.data.annotations import Named
from vlbench.data.compounds import (
    ARTICLED,
    ARTICLES,
    COLOURS,
    COMPOUNDS,
    FRUIT,
    HEADS,
    KINDS_OF,
    OPEN,
)
from vlbench.errors import DataError

IRREGULAR = {
    "children": "child",
    "geese": "goose",
    "men": "man",
    "mice": "mouse",
    "oxen": "ox",
    "people": "person",
    "women": "woman",
}
# Endings of plurals and of singulars. Only names of a list are looked up, so that more than one
# singular may be tried: `knives` may come of `knif`, `knife`.
ENDINGS = (("ves", "f"), ("ves", "fe"), ("ies", "y"), ("es", ""), ("s", ""))
LETTERS = re.compile(r"[A-Za-z]+")


class Token(NamedTuple):
    """A word of a caption: its characters start..end."""

    word: str
    start: int
    end: int


@dataclass(frozen=True)
class ClassNames:
    """The categories in the list's order, and the category of each name, of one or two words."""

    categories: Sequence[str]
    names: Mapping[str, str]

    def named(self, caption: str) -> list[Named]:
        """Return each category with the first words that name it, in the caption's order."""
        found: dict[str, Named] = {}
        for mention in self._mentions(caption):
            found.setdefault(mention.category, mention)
        return sorted(found.values(), key=lambda mention: mention.start)

    def _mentions(self, caption: str) -> Iterator[Named]:
        tokens = [Token(m[0].lower(), *m.span()) for m in LETTERS.finditer(caption)]
        taken: set[int] = set()
        for i, (one, two) in enumerate(pairwise(tokens)):
            pair = f"{one.word} {two.word}"
            is_apart = caption[one.end : two.start].strip(" -") != ""
            if is_apart or i in taken:
                continue
            category = self._category_of_two(pair)
            if category is not None:
                taken |= {i, i + 1}
            if category:
                yield Named(category, caption[one.start : two.end], one.start, two.end)
        for i, token in enumerate(tokens):
            category = None if i in taken else self._category(token.word)
            if category and not _tells_a_kind(tokens, i, category):
                yield Named(category, caption[token.start : token.end], token.start, token.end)

    def _category_of_two(self, pair: str) -> str | None:
        """Return the category of two words, empty for two that name none; None: they are no name.

        `air plane` may be in the list as `airplane`.
        """
        blocked = next((COMPOUNDS[s] for s in singulars(pair) if s in COMPOUNDS), None)
        known = self._category(pair)
        return known or (self._category(pair.replace(" ", "")) if blocked is None else blocked)

    def _category(self, word: str) -> str | None:
        return next((self.names[s] for s in singulars(word) if s in self.names), None)


def read_class_names(file: Path, categories: Sequence[str]) -> ClassNames:
    """Return the names in a file. Raises DataError with the line that does not fit `categories`.

    Names lose their blanks; the last line that has a name has it (`recliner` is a couch).
    """
    lines = file.read_text("utf-8").rstrip("\n").split("\n")
    names: dict[str, str] = {}
    listed: list[str] = []
    for number, line in enumerate(lines, 1):
        entries = [" ".join(entry.lower().split()) for entry in line.split(",")]
        if entries[0] not in categories or entries[0] in listed:
            raise DataError(f"{file.name}, line {number}: no category, or again: '{entries[0]}'")
        listed.append(entries[0])
        names |= {entry: entries[0] for entry in entries if entry}
    if len(lines) != len(categories):
        raise DataError(f"{file.name}, line {len(lines)}: the last, of {len(categories)} expected")
    return ClassNames(listed, names)


def singulars(word: str) -> list[str]:
    """Return what a word, or the last of two, may be the plural of: first the word itself."""
    before, blank, last = word.rpartition(" ")
    found = [last, *([IRREGULAR[last]] if last in IRREGULAR else [])]
    found += [last.removesuffix(s) + ending for s, ending in ENDINGS if last.endswith(s)]
    return [before + blank + singular for singular in found]


def _tells_a_kind(tokens: Sequence[Token], i: int, category: str) -> bool:
    """Return whether a word tells what kind of thing another is, or what colour."""
    word = tokens[i].word
    following = tokens[i + 1].word if i + 1 < len(tokens) else ""
    if word in ARTICLED:
        return not _stands_alone(tokens, i, following)
    if category == "person":  # `people park` and `men show`: more often a verb
        return bool(KINDS_OF.get(word, frozenset()) & set(singulars(following)))
    return following in HEADS | KINDS_OF.get(word, frozenset())


def _stands_alone(tokens: Sequence[Token], i: int, following: str) -> bool:
    """Return whether an article comes before a word (and one adjective), and no noun after it."""
    if tokens[i].word == "orange":
        if following in FRUIT:
            return True
        if following == "and" and tokens[i + 2 : i + 3] and tokens[i + 2].word in COLOURS:
            return False
    before = {token.word for token in tokens[max(0, i - 2) : i]}
    return bool(before & ARTICLES) and (not following or following in OPEN)
