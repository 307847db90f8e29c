"""Words of a caption that name a category, found by a list of fine-grained names.

The list is NeuralBabyTalk's `coco_class_name.txt` (Lu et al. 2018, arXiv:1803.09845): one line per
category, with its name and then other names for it. As there, words are compared by their lemma,
and a match of two words is tried first and blocks the match of either word. We depart from it in
three points. A name matches whether it is written as one word or as two. A name that modifies the
next noun (`train tracks`), and `orange` as a colour, name nothing. A category is matched whether or
not the image has a box of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from vlbench.data.coco_files import Named, read_text
from vlbench.errors import DataError

# Two words that name another category than either word alone; "": no category.
COMPOUNDS = {
    "bean bag": "",
    "box car": "",
    "bull frog": "",
    "cable car": "",
    "computer mouse": "mouse",
    "donald duck": "",
    "flower bed": "",
    "home plate": "",
    "hot plate": "",
    "jet ski": "",
    "license plate": "",
    "mickey mouse": "",
    "minnie mouse": "",
    "name plate": "",
    "pick up": "",
    "rail car": "",
    "rubber duck": "",
    "shipping container": "",
    "soccer ball": "sports ball",
    "street car": "",
    "stuffed bear": "",
    "toilet bowl": "toilet",
    "toilet seat": "toilet",
    "train car": "train",
    "truck bed": "truck",
    "trolley car": "",
}

# Nouns that a name before them only modifies: `bus station` is not a bus.
_HEADS = (
    *("booth", "cap", "case", "club", "collar", "court", "dealership", "depot", "desk", "diamond"),
    *("dish", "dock", "driver", "enclosure", "equipment", "exhibit", "feeder", "field", "game"),
    *("hangar", "hat", "house", "hut", "jersey", "lane", "lodge", "lot", "outfit", "pie"),
    *("platform", "player", "resort", "room", "shelf", "shop", "slope", "station", "store", "suit"),
    *("team", "terminal", "tournament", "track", "uniform", "yard"),
)
# The last row has words that are also verbs; only their singular is listed: `a bus stops` is a bus.
HEADS = frozenset(
    (
        *_HEADS,
        *(f"{head}s" for head in _HEADS),
        *("food", "gear", "juice", "paper", "tennis", "practice"),
        *("lift", "match", "park", "race", "show", "stop"),
    )
)

ANIMALS = frozenset(
    (
        *("animal", "bear", "bird", "calf", "cat", "cow", "cub", "deer", "dog", "duck", "elephant"),
        *("giraffe", "goat", "horse", "lamb", "lion", "panda", "sheep", "zebra"),
    )
)
PLACES = frozenset(("area", "beach", "field", "island", "location", "place", "road"))

# Nouns, beside HEADS, that a given word only modifies when it stands before them.
KINDS_OF = {
    **dict.fromkeys(("adult", "baby", "father", "female", "male", "mother"), ANIMALS),
    "baby": ANIMALS | {"carriage", "stroller"},
    "passenger": frozenset(("boat", "bus", "car", "ferry", "jet", "plane", "train", "vehicle")),
    "pitcher": frozenset(("of",)),
    "remote": PLACES,
    "turkey": frozenset(("burger", "sandwich", "sub")),
}

# Words that name a thing only after an article and before no noun: a colour, and sports.
ARTICLED = frozenset(
    ("baseball", "basketball", "football", "orange", "racquetball", "soccer", "softball")
) | {"volleyball"}
ARTICLES = frozenset(("a", "an", "another", "her", "his", "one", "the", "their", "this"))

COLOURS = frozenset(
    ("black", "blue", "brown", "gold", "gray", "green", "grey", "pink", "purple", "red", "silver")
) | {"tan", "white", "yellow"}

# Nouns before which `orange` means the fruit.
FRUIT = frozenset(("half", "halves", "peel", "peels", "segments", "slice", "slices", "wedges"))

# Words that follow a noun phrase but do not belong to it.
OPEN = frozenset(
    (
        *("about", "across", "after", "and", "are", "around", "as", "at", "before", "behind"),
        *("being", "beside", "between", "by", "during", "flying", "for", "from", "hanging", "has"),
        *("in", "inside", "into", "is", "laying", "lies", "lying", "near", "next", "of", "off"),
        *("on", "onto", "or", "out", "over", "resting", "sits", "sitting", "that", "through", "to"),
        *("toward", "towards", "under", "up", "was", "were", "which", "while", "with"),
    )
)


IRREGULAR = {
    "children": "child",
    "geese": "goose",
    "men": "man",
    "mice": "mouse",
    "oxen": "ox",
    "people": "person",
    "women": "woman",
}
# Endings of plurals and of singulars. A plural has several candidates (`knif` and `knife` for
# `knives`), of which only those in the list of names match.
ENDINGS = (("ves", "f"), ("ves", "fe"), ("ies", "y"), ("es", ""), ("s", ""))
LETTERS = re.compile(r"[A-Za-z]+")


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
        """Return how many fine-grained classes a caption names: `a man and a woman` names 2."""
        return len({mention.word for mention in self._mentions(caption)})

    def _mentions(self, caption: str) -> Iterator[Named]:
        tokens = [Token(m[0].lower(), *m.span()) for m in LETTERS.finditer(caption)]
        used: set[int] = set()
        for i, (one, two) in enumerate(pairwise(tokens)):
            pair = f"{one.word} {two.word}"
            is_apart = caption[one.end : two.start].strip(" -") != ""
            if is_apart or i in used:
                continue
            name = self._name_of_two(pair)
            if name is not None:
                used |= {i, i + 1}
            if name and name in self.names:
                yield Named(self.names[name], name, one.start, two.end)
        for i, token in enumerate(tokens):
            name = None if i in used else self._name(token.word)
            if name and not _modifies_next_word(tokens, i, self.names[name]):
                yield Named(self.names[name], name, token.start, token.end)

    def _name_of_two(self, pair: str) -> str | None:
        """Return the name that two words are together; None where they are none.

        Empty for a compound that names nothing (`stuffed bear`). `air plane` also matches
        `airplane` in the list, and `soccer ball` is the category `sports ball`.
        """
        blocked = next((COMPOUNDS[s] for s in singulars(pair) if s in COMPOUNDS), None)
        known = self._name(pair)
        return known or (self._name(pair.replace(" ", "")) if blocked is None else blocked)

    def _name(self, word: str) -> str | None:
        """Return the name in the list that a word is, in the singular or in the plural."""
        return next((s for s in singulars(word) if s in self.names), None)


def read_class_names(file: Path, categories: Sequence[str]) -> ClassNames:
    """Return the names in a file. Raises DataError with the line that does not fit `categories`.

    Blanks around names are removed. A name on several lines belongs to the last of them: `recliner`
    is a couch.
    """
    lines = read_text(file).rstrip("\n").split("\n")
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
    """Return candidate singulars of a word, or of the last of two; the word itself comes first."""
    before, blank, last = word.rpartition(" ")
    words = [last, *([IRREGULAR[last]] if last in IRREGULAR else [])]
    words += [last.removesuffix(s) + ending for s, ending in ENDINGS if last.endswith(s)]
    return [before + blank + singular for singular in words]


def _modifies_next_word(tokens: Sequence[Token], i: int, category: str) -> bool:
    """Return whether a word only describes what follows: its kind, or its colour."""
    word = tokens[i].word
    following = tokens[i + 1].word if i + 1 < len(tokens) else ""
    if word in ARTICLED:
        return not _stands_alone(tokens, i, following)
    if category == "person":  # `people park` and `men show`: more often a verb
        return bool(KINDS_OF.get(word, frozenset()) & set(singulars(following)))
    return following in HEADS | KINDS_OF.get(word, frozenset())


def _stands_alone(tokens: Sequence[Token], i: int, following: str) -> bool:
    """Return whether a word follows an article (and at most one adjective) and precedes no noun."""
    if tokens[i].word == "orange":
        if following in FRUIT:
            return True
        if following == "and" and tokens[i + 2 : i + 3] and tokens[i + 2].word in COLOURS:
            return False
    before = {token.word for token in tokens[max(0, i - 2) : i]}
    return bool(before & ARTICLES) and (not following or following in OPEN)
