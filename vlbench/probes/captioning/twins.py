"""Twins of a caption: with other nouns, or with other words that are no nouns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from numpy.random import Generator

from vlbench.errors import TooFewRows
from vlbench.probes.captioning.nouns import Nouns, words_of

# What stands before and after the word of a part.
AROUND = re.compile(r"^(\W*)\w(?:.*\w)?(\W*)$")


class Caption(NamedTuple):
    """A caption between white space, with the positions of its nouns and of its other words."""

    parts: Sequence[str]
    nouns: Mapping[int, str]
    others: Mapping[int, str]

    @classmethod
    def of(cls, text: str, nouns: Iterable[tuple[int, str]]) -> Caption:
        """Return a caption, of which the nouns are known; punctuation is neither."""
        found = dict(nouns)
        others = {i: word for i, word in enumerate(words_of(text)) if word and i not in found}
        return cls(text.split(), found, others)

    def with_wrong_nouns(self, told: Nouns, shown: Iterable[str], rng: Generator) -> str:
        """Return the caption with nouns that are no form of those shown, nor of its own.

        The same noun is replaced by the same one. Raises TooFewRows where there are too few nouns.
        """
        own = dict.fromkeys(self.nouns.values())
        wrong = told.draw(len(own), [*shown, *own], rng)
        by_noun = dict(zip(own, wrong, strict=True))
        return self._with({i: by_noun[noun] for i, noun in self.nouns.items()})

    def with_other_words(self, told: Nouns, rng: Generator) -> str:
        """Return the caption with another word in place of each that is no noun.

        Raises TooFewRows where there is no other word.
        """
        return self._with({i: _another(word, told, rng) for i, word in self.others.items()})

    def _with(self, replaced: Mapping[int, str]) -> str:
        return " ".join(
            _in_place(part, replaced[i]) if i in replaced else part
            for i, part in enumerate(self.parts)
        )


def _another(word: str, told: Nouns, rng: Generator) -> str:
    """Return a word that is drawn from those that are no nouns, but not this one."""
    words = told.other_words
    if not set(words) - {word}:
        raise TooFewRows(f"the training captions have no word to draw in place of '{word}'")
    while (drawn := words[int(rng.integers(len(words)))]) == word:
        pass
    return drawn


def _in_place(part: str, word: str) -> str:
    """Return a word with the punctuation around the one that it replaces."""
    before, after = AROUND.findall(part)[0]
    return f"{before}{word}{after}"
