"""Words of a caption that name a category, found with a list of fine-grained names.

The list is NeuralBabyTalk's `coco_class_name.txt` (Lu et al. 2018, arXiv:1803.09845): one line per
category, with its name and then other names for it. As in NeuralBabyTalk, words are compared by
lemma, and a match of two words is tried first and blocks the match of either word. Three points
differ. A name matches whether it is written as one word or as two. A name that modifies the next
noun (`train tracks`), and `orange` as a colour, name nothing. A category is matched even if the
image has no box of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.data.coco_files import Named, read_text
from vlbench.errors import DataError

# Endings of plurals and of singulars. A plural has several candidates (`knif` and `knife` for
# `knives`); only candidates in the list of names match.
ENDINGS = (("ves", "f"), ("ves", "fe"), ("ies", "y"), ("es", ""), ("s", ""))
LETTERS = re.compile(r"[A-Za-z]+")


class WordLists(NamedTuple):
    """The words of category_words.json, lower-case.

    `compounds` are two words that name a category different from either word's; "": no category.
    `heads` are nouns that a name before them only modifies: `bus station` is not a bus. If a head
    is also a verb, only the singular is listed: `a bus stops` is a bus. `kinds_of` lists further
    heads by the word before them. Words of `articled`, a colour and sports, name a thing only after
    a word of `articles` and before no noun; before a word of `fruit`, `orange` is a thing.
    Words of `open` follow a noun phrase but do not belong to it.
    """

    compounds: Mapping[str, str]
    heads: frozenset[str]
    kinds_of: Mapping[str, frozenset[str]]
    articled: frozenset[str]
    articles: frozenset[str]
    colours: frozenset[str]
    fruit: frozenset[str]
    open: frozenset[str]
    irregular: Mapping[str, str]


@cache
def word_lists() -> WordLists:
    """Return the lists, which are read only once."""
    lists: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    lists["kinds_of"] = {word: frozenset(nouns) for word, nouns in lists["kinds_of"].items()}
    fields: Any = {k: frozenset(v) if type(v) is list else v for k, v in lists.items()}
    return WordLists(**fields)


class Token(NamedTuple):
    """A lower-case word of a caption and its characters start..end (end excluded)."""

    word: str
    start: int
    end: int


@dataclass(frozen=True)
class ClassNames:
    """The categories in the order of the list, and the category of each name (one or two words).

    The names are the fine-grained classes.
    """

    categories: Sequence[str]
    names: Mapping[str, str]

    def named(self, caption: str) -> list[Named]:
        """Return one `Named` per category, for the first words that name it, in caption order."""
        mentions: dict[str, Named] = {}
        for mention in self._mentions(caption):
            mentions.setdefault(mention.category, mention)
        return sorted(mentions.values(), key=lambda mention: mention.start)

    def count(self, caption: str) -> int:
        """Return the number of fine-grained classes in a caption: 2 in `a man and a woman`."""
        return len({mention.word for mention in self._mentions(caption)})

    def _mentions(self, caption: str) -> Iterator[Named]:
        tokens = [Token(m[0].lower(), *m.span()) for m in LETTERS.finditer(caption)]
        used: set[int] = set()
        for i, (first, second) in enumerate(pairwise(tokens)):
            pair = f"{first.word} {second.word}"
            is_apart = caption[first.end : second.start].strip(" -") != ""
            if is_apart or i in used:
                continue
            name = self._name_of_two(pair)
            if name is not None:
                used |= {i, i + 1}
            if name and name in self.names:
                yield Named(self.names[name], name, first.start, second.end)
        for i, token in enumerate(tokens):
            name = None if i in used else self._name(token.word)
            if name and not _modifies_next_word(tokens, i, self.names[name]):
                yield Named(self.names[name], name, token.start, token.end)

    def _name_of_two(self, pair: str) -> str | None:
        """Return the name that two words form together; None if they form none.

        Empty for a compound that names nothing (`stuffed bear`). `air plane` also matches
        `airplane` in the list, and `soccer ball` is the category `sports ball`.
        """
        compounds = word_lists().compounds
        blocked = next((compounds[s] for s in singulars(pair) if s in compounds), None)
        whole = self._name(pair)
        return whole or (self._name(pair.replace(" ", "")) if blocked is None else blocked)

    def _name(self, word: str) -> str | None:
        """Return the name in the list that matches a word, in the singular or in the plural."""
        return next((s for s in singulars(word) if s in self.names), None)


def read_class_names(file: Path, categories: Sequence[str]) -> ClassNames:
    """Return the names in a file. Raises DataError with the line that does not fit `categories`.

    Blanks around names are removed. A name on several lines belongs to the last line: `recliner`
    is a couch.
    """
    lines = read_text(file).rstrip("\n").split("\n")
    names: dict[str, str] = {}
    ordered: list[str] = []
    for number, line in enumerate(lines, 1):
        entries = [" ".join(entry.lower().split()) for entry in line.split(",")]
        if entries[0] not in categories or entries[0] in ordered:
            raise DataError(
                f"{file.name}, line {number}: unknown or repeated category: '{entries[0]}'"
            )
        ordered.append(entries[0])
        names |= {entry: entries[0] for entry in entries if entry}
    if len(lines) != len(categories):
        raise DataError(
            f"{file.name}, line {len(lines)}: the file ends here, but {len(categories)} "
            "categories are expected"
        )
    return ClassNames(ordered, names)


@lru_cache(100_000)
def singulars(word: str) -> Sequence[str]:
    """Return candidate singulars of a word, or of the last of two; the word itself comes first."""
    before, blank, last = word.rpartition(" ")
    irregular = word_lists().irregular.get(last)
    words = [last, irregular] if irregular else [last]
    words += [last.removesuffix(s) + ending for s, ending in ENDINGS if last.endswith(s)]
    return tuple(before + blank + singular for singular in words)


def _modifies_next_word(tokens: Sequence[Token], i: int, category: str) -> bool:
    """Return whether a word only describes the next word: its kind, or its colour."""
    lists, word = word_lists(), tokens[i].word
    following = tokens[i + 1].word if i + 1 < len(tokens) else ""
    if word in lists.articled:
        return not _stands_alone(tokens, i, following)
    if category == "person":  # `people park` and `men show`: more often a verb
        return bool(lists.kinds_of.get(word, frozenset()) & set(singulars(following)))
    return following in lists.heads | lists.kinds_of.get(word, frozenset())


def _stands_alone(tokens: Sequence[Token], i: int, following: str) -> bool:
    """Return whether a word follows an article (and at most one adjective) and precedes no noun."""
    lists = word_lists()
    if tokens[i].word == "orange":
        if following in lists.fruit:
            return True
        if following == "and" and tokens[i + 2 : i + 3] and tokens[i + 2].word in lists.colours:
            return False
    before = {token.word for token in tokens[max(0, i - 2) : i]}
    return bool(before & lists.articles) and (not following or following in lists.open)
