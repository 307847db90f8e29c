"""Prefixes and sentence patterns of captions by parts of speech. arXiv:2210.09550, table 5.

As in the paper, `(...)*` is one or more and `(...)?` one or none. NOUN.P is a noun phrase:
determiners or possessive pronouns, then adjectives and numbers, then nouns; REL a preposition or a
verb; AUX a copula; CCONJ a conjunction; IMAGE.P a noun phrase with a word that begins with "image".
A prefix stands at the start of a caption; a pattern describes all of it. Punctuation does not
count. `an` counts as `a`. ROSITA's second prefix counts where the first one is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# The words of a caption in lower case, each with its universal part of speech.
Tagged = Sequence[tuple[str, str]]

PUNCTUATION = "PUNCT"
DETERMINERS = frozenset({"DET"})
POSSESSIVES = frozenset({"her", "his", "its", "my", "our", "their", "your"})
DESCRIBING = frozenset({"ADJ", "NUM"})
NOUNS = frozenset({"NOUN", "PROPN"})
RELATIONS = frozenset({"ADP", "VERB"})
COPULAS = frozenset({"is", "was", "are", "were"})

# A letter for each phrase: I for `a` and a noun phrase with an image, N for other noun phrases, T
# for `that`, S for `is`, X for other copulas, F for `of`, R for other prepositions and verbs, C for
# conjunctions, O for the rest.
PREFIXES: Mapping[str, str] = {
    "uniter": "[NI]+[RF]",
    "rosita_image": "ITS",
    "rosita_nouns": "(?!ITS)[NI]+TS",
    "vilbert": "[NI]+T",
    "clip": "IF",
    "lxmert": "[NI]+[RF]",
}

# ((A)?+(NOUN.P)*)* is written ((A)?+NOUN.P)*, which is the same and fast for any caption.
PATTERNS: Mapping[str, str] = {
    "uniter": "[NI]+[RF][NI]+",
    "rosita": "[NI]+TS(?:C?[NI])+",
    "vilbert": "[NI]+T(?:[SX]?[RF]?[NI])+",
    "clip": "IF(?:C?[RF]?[NI])+",
    "lxmert": "[NI]+[RF](?:[RF]?[NI])+",
}


def has_prefix(tagged: Tagged, name: str) -> bool:
    """Return whether a caption begins with the prefix of this name."""
    return re.match(PREFIXES[name], letters(spoken(tagged))) is not None


def has_pattern(tagged: Tagged, name: str) -> bool:
    """Return whether the pattern of this name describes a whole caption."""
    return re.fullmatch(PATTERNS[name], letters(spoken(tagged))) is not None


def spoken(tagged: Tagged) -> list[tuple[str, str]]:
    """Return the words of a caption that are no punctuation."""
    return [(word, tag) for word, tag in tagged if tag != PUNCTUATION]


def letters(words: Tagged) -> str:
    """Return a letter for each phrase of a caption without punctuation."""
    found, place = [], 0
    while place < len(words):
        end = noun_phrase_end(words, place)
        if end == place:
            found.append(_letter(*words[place]))
        else:
            found.append("I" if _is_of_image(words[place:end]) else "N")
        place = max(end, place + 1)
    return "".join(found)


def noun_phrase_end(words: Tagged, start: int) -> int:
    """Return where the noun phrase that begins at `start` ends; `start` where none does."""
    place = _past(words, start, DETERMINERS, POSSESSIVES)
    noun = _past(words, place, DESCRIBING)
    end = _past(words, noun, NOUNS)
    return end if end > noun else start


def part_of_speech(word: str, tag: str) -> str:
    """Return REL, AUX, CCONJ, or the word's own tag."""
    if tag == "AUX" or word in COPULAS:
        return "AUX"
    return "REL" if tag in RELATIONS else tag


def _past(
    words: Tagged, place: int, tags: frozenset[str], listed: frozenset[str] = frozenset()
) -> int:
    """Return the first place from `place` on whose word has other tags and is not listed."""
    while place < len(words):
        word, tag = words[place]
        # `that` tells a clause, whatever its tag.
        if word == "that" or (tag not in tags and word not in listed):
            break
        place += 1
    return place


def _letter(word: str, tag: str) -> str:
    if word in {"that", "is", "of"}:
        return {"that": "T", "is": "S", "of": "F"}[word]
    return {"AUX": "X", "REL": "R", "CCONJ": "C"}.get(part_of_speech(word, tag), "O")


def _is_of_image(phrase: Tagged) -> bool:
    return phrase[0][0] in {"a", "an"} and any(word.startswith("image") for word, _ in phrase)
