"""Prefixes and sentence patterns of captions by parts of speech. arXiv:2210.09550, table 5.

As in the paper, `(...)*` is one or more and `(...)?` one or none. NOUN.P is a noun phrase:
determiners or possessive pronouns, then adjectives and numbers, then nouns; REL a preposition or a
verb; AUX a copula; CCONJ a conjunction; IMAGE.P a noun phrase with a word that begins with "image".
A prefix matches the start of a caption; a pattern matches the whole caption. Punctuation does not
count. `an` counts as `a`. ROSITA's second prefix counts if the first does not match.

The paper derives its patterns from all test captions and counts them in the same captions. Here, in
addition to the paper's patterns, a pattern per seed is found in the favourites of one half of the
images, drawn with a seed, and counted in the other half: in favourites, in captions before the
reward, and in references.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from vlbench.metrics.intervals import Floats
from vlbench.metrics.items import Examples, Measured, outcome_of
from vlbench.probes.captioning.caption_scores import DESCRIBES, measured_share
from vlbench.probes.captioning.kinds import FAVOURITES, KINDS
from vlbench.probes.captioning.nouns import Tagged, without_punctuation
from vlbench.results import Outcome

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

# ((A)?+(NOUN.P)*)* is written as the equivalent ((A)?+NOUN.P)*, which is fast for any caption.
PATTERNS: Mapping[str, str] = {
    "uniter": "[NI]+[RF][NI]+",
    "rosita": "[NI]+TS(?:C?[NI])+",
    "vilbert": "[NI]+T(?:[SX]?[RF]?[NI])+",
    "clip": "IF(?:C?[RF]?[NI])+",
    "lxmert": "[NI]+[RF](?:[RF]?[NI])+",
}

# Most elements of a prefix, and the fraction of captions that must share it.
LONGEST = 5
SHARED = 0.5

# The simplest group of noun phrases is chosen that matches at least this fraction of the captions
# matched by the fullest group.
ENOUGH = 0.9

# Elements that may precede a noun phrase, and their letters.
BEFORE = {"CCONJ": "C", "AUX": "[SX]", "REL": "[RF]"}

NOUN_PHRASE = "NOUN.P"

# The name of the found pattern beside the paper's patterns.
OWN = "own"


def has_prefix(tagged: Tagged, name: str) -> bool:
    """Return whether a caption begins with the prefix of this name."""
    return re.match(PREFIXES[name], letters(without_punctuation(tagged))) is not None


def has_pattern(tagged: Tagged, name: str) -> bool:
    """Return whether the pattern of this name matches a whole caption."""
    return re.fullmatch(PATTERNS[name], letters(without_punctuation(tagged))) is not None


def letters(words: Tagged) -> str:
    """Return a letter for each phrase of a caption without punctuation."""
    phrases, place = [], 0
    while place < len(words):
        end = noun_phrase_end(words, place)
        if end == place:
            phrases.append(_letter(*words[place]))
        else:
            phrases.append("I" if _is_of_image(words[place:end]) else "N")
        place = max(end, place + 1)
    return "".join(phrases)


def noun_phrase_end(words: Tagged, start: int) -> int:
    """Return the end of the noun phrase that begins at `start`, or `start` if there is none."""
    place = _skip(words, start, DETERMINERS, POSSESSIVES)
    noun = _skip(words, place, DESCRIBING)
    end = _skip(words, noun, NOUNS)
    return end if end > noun else start


def part_of_speech(word: str, tag: str) -> str:
    """Return REL, AUX, CCONJ, or the word's own tag."""
    if tag == "AUX" or word in COPULAS:
        return "AUX"
    return "REL" if tag in RELATIONS else tag


def _skip(
    words: Tagged, place: int, tags: frozenset[str], listed: frozenset[str] = frozenset()
) -> int:
    """Return the first place from `place` on whose word has no such tag and is not in `listed`."""
    while place < len(words):
        word, tag = words[place]
        # `that` marks a clause, whatever its tag.
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


class Element(NamedTuple):
    """A word, or a part of speech (NOUN.P for a whole noun phrase from the current place on)."""

    text: str
    is_word: bool


class Pattern(NamedTuple):
    """A prefix, and the elements that may precede each of the noun phrases after it."""

    prefix: tuple[Element, ...]
    before: tuple[str, ...]

    @property
    def name(self) -> str:
        """The pattern in the paper's notation."""
        group = "+".join([*(f"({kind})?" for kind in self.before), NOUN_PHRASE])
        return f"{self.prefix_name}+(({group})*)?"

    @property
    def prefix_name(self) -> str:
        """The prefix in the paper's notation."""
        return "+".join(element.text for element in self.prefix)

    def begins(self, tagged: Tagged) -> bool:
        """Return whether a caption begins with the prefix."""
        return _after(without_punctuation(tagged), self.prefix) is not None

    def describes(self, tagged: Tagged) -> bool:
        """Return whether a caption is the prefix and noun phrases, or only the prefix."""
        words = without_punctuation(tagged)
        place = _after(words, self.prefix)
        group = _group(self.before)
        return place is not None and re.fullmatch(group, letters(words[place:])) is not None


def mine(captions: Sequence[Tagged]) -> Pattern:
    """Return the pattern of captions. Raises ValueError if no caption has a word."""
    words = [without_punctuation(tagged) for tagged in captions]
    prefix = _prefix(words)
    if not prefix:
        raise ValueError("no caption has a word, so there is no pattern")
    places = [_after(word, prefix) for word in words]
    rests = [letters(text[k:]) for text, k in zip(words, places, strict=True) if k is not None]
    groups = [some for n in range(len(BEFORE) + 1) for some in combinations(BEFORE, n)]
    described = {some: _count(_group(some), rests) for some in groups}
    enough = ENOUGH * described[groups[-1]]
    fewest = next(len(some) for some in groups if described[some] >= enough)
    return Pattern(
        prefix, max((some for some in groups if len(some) == fewest), key=described.__getitem__)
    )


def _prefix(words: Sequence[Tagged]) -> tuple[Element, ...]:
    """Return the prefix; it has a first element even if fewer than half share the element."""
    prefix: list[Element] = []
    places = dict.fromkeys(range(len(words)), 0)
    while len(prefix) < LONGEST:
        left = [(words[i], place) for i, place in places.items() if place < len(words[i])]
        word, often = _most_frequent(left, lambda text, place: text[place][0])
        element = Element(word, is_word=True)
        if often < SHARED * len(words):
            part, often = _most_frequent(left, _part)
            element = Element(part, is_word=False)
        if not often or (prefix and often < SHARED * len(words)):
            break
        prefix.append(element)
        after = {i: _step(words[i], place, element) for i, place in places.items()}
        places = {i: place for i, place in after.items() if place is not None}
    return tuple(prefix)


def _most_frequent(
    left: Sequence[tuple[Tagged, int]], read: Callable[[Tagged, int], str]
) -> tuple[str, int]:
    """Return the most frequent element at the places, and its count; ties go to the first name."""
    counts = Counter(read(text, place) for text, place in left)
    return min(counts.items(), key=lambda item: (-item[1], item[0]), default=("", 0))


def _part(words: Tagged, place: int) -> str:
    in_phrase = noun_phrase_end(words, place) > place
    return NOUN_PHRASE if in_phrase else part_of_speech(*words[place])


def _step(words: Tagged, place: int, element: Element) -> int | None:
    """Return the place after an element if it is at this place, otherwise None."""
    if place >= len(words):
        return None
    if element.is_word:
        return place + 1 if words[place][0] == element.text else None
    if _part(words, place) != element.text:
        return None
    return max(noun_phrase_end(words, place), place + 1)


def _after(words: Tagged, prefix: Sequence[Element]) -> int | None:
    place: int | None = 0
    for element in prefix:
        place = None if place is None else _step(words, place, element)
    return place


def _group(before: Sequence[str]) -> str:
    """Return the regular expression of noun phrases with their optional preceding elements."""
    return "(?:" + "".join(f"{BEFORE[kind]}?" for kind in before) + "[NI])*"


def _count(group: str, rests: Sequence[str]) -> int:
    return sum(re.fullmatch(group, rest) is not None for rest in rests)


# Tagged captions [seeds][N] by kind; one seed for kinds that no seed changes.
TaggedKinds = Mapping[str, Sequence[Sequence[Tagged]]]

# Whether a rule holds for a caption.
Holds = Callable[[Tagged], bool]


def pattern_part(kinds: TaggedKinds, examples: Examples, *, seed: int) -> Outcome:
    """Return the ratios of all prefixes and patterns, and a note of the found patterns."""
    ratios, patterns = own_ratios(kinds, examples, seed=seed)
    names = [f"seed {i}: {pattern.name}" for i, pattern in enumerate(patterns)]
    prefix = "the pattern of favourites, found in half of the images, is "
    notes = [prefix + "; ".join(names)] if names else []
    return outcome_of([*paper_ratios(kinds, examples), *ratios], notes=notes)


def paper_ratios(kinds: TaggedKinds, examples: Examples) -> list[Measured]:
    """Return how often captions have the paper's prefixes and patterns."""
    rules: list[tuple[str, str, Callable[..., bool]]] = [
        *(("prefix_ratio", name, has_prefix) for name in PREFIXES),
        *(("pattern_ratio", name, has_pattern) for name in PATTERNS),
    ]
    return [
        measured_share(
            metric,
            {"captions": kind, "pattern": name},
            _credit(kinds[kind], [partial(rule, name=name)]),
            examples,
            no_chance=DESCRIBES,
        )
        for kind in KINDS
        for metric, name, rule in rules
    ]


def own_ratios(
    kinds: TaggedKinds, examples: Examples, *, seed: int
) -> tuple[list[Measured], list[Pattern]]:
    """Return the ratios of the patterns found in the favourites of each seed, and the patterns.

    Both are empty if, for any seed, no favourite in the searched half has a word.
    """
    order = np.random.default_rng(seed).permutation(len(examples.ids)).tolist()
    half, rest = order[: len(order) // 2], sorted(order[len(order) // 2 :])
    searched = [[of_seed[i] for i in half] for of_seed in kinds[FAVOURITES]]
    if not all(any(without_punctuation(caption) for caption in captions) for captions in searched):
        return [], []
    patterns = [mine(captions) for captions in searched]
    judged = examples.select(rest)
    rules: dict[str, list[Holds]] = {
        "prefix_ratio": [pattern.begins for pattern in patterns],
        "pattern_ratio": [pattern.describes for pattern in patterns],
    }
    ratios = []
    for kind in KINDS:
        captions = [[of_seed[i] for i in rest] for of_seed in kinds[kind]]
        for metric, holds in rules.items():
            at = {"captions": kind, "pattern": OWN}
            credit = _credit(captions, holds)
            ratios.append(measured_share(metric, at, credit, judged, no_chance=DESCRIBES))
    return ratios, patterns


def _credit(captions: Sequence[Sequence[Tagged]], holds: Sequence[Holds]) -> Floats:
    """Apply rules to captions, [seeds, N]; a single rule or set of captions is repeated."""
    seeds = max(len(captions), len(holds))
    pairs = [(captions[s % len(captions)], holds[s % len(holds)]) for s in range(seeds)]
    return np.array([[rule(text) for text in of_seed] for of_seed, rule in pairs], np.float64)
