"""Sentences built word by word, with universal tags, Stanford dependencies and phrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from numpy.random import Generator

from vlbench.data.coco_files import Arc, Phrase
from vlbench.data.scenes.facts import Group
from vlbench.data.scenes.layout import Thing
from vlbench.data.scenes.world import FAMILY, plural

NUMBERS = ("zero", "one", "two", "three", "four")


@dataclass
class Sentence:
    """A sentence that is built word by word; a word's head may be added after the word."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    arcs: list[Arc] = field(default_factory=list)
    phrases: list[Phrase] = field(default_factory=list)

    def say(self, word: str, tag: str) -> int:
        """Add a word and return its index."""
        self.words.append(word)
        self.tags.append(tag)
        return len(self.words) - 1

    def hang(self, relation: str, head: int, *dependents: int) -> None:
        """Add the arcs that make words dependents of a head."""
        self.arcs += [Arc(relation, head, dependent) for dependent in dependents]

    def add(self, word: str, tag: str, relation: str, head: int) -> int:
        """Add a dependent of an earlier word, and return its index."""
        index = self.say(word, tag)
        self.hang(relation, head, index)
        return index

    def stop(self, root: int) -> None:
        """Add the full stop."""
        self.add(".", "PUNCT", "punct", root)

    def text(self) -> str:
        """Return the words joined by blanks."""
        return " ".join(self.words)


def name(
    sentence: Sentence, group: Group, rng: Generator, *, exact: bool = False, bare: bool = False
) -> int:
    """Add a noun phrase that is true of a group and return the index of its noun.

    `exact` always uses the fine-grained noun instead of sometimes the category. `bare` uses `the`
    instead of `a` and adjectives.
    """
    noun = group.noun if exact or rng.random() < 0.7 else group.category
    number = len(group.members)
    adjectives = [] if bare else _adjectives(group, rng)
    toy = ["toy"] if rng.random() < 0.12 and FAMILY[group.category] != "plant" else []
    word = noun if number == 1 else plural(noun)
    ahead = [*adjectives, *toy, word]
    if number > 1:
        opening = (NUMBERS[number], "NUM", "num")
    elif bare:
        opening = ("the", "DET", "det")
    else:
        opening = ("an" if ahead[0][0] in "aeiou" else "a", "DET", "det")
    start = sentence.say(opening[0], opening[1])
    described = [sentence.say(adjective, "ADJ") for adjective in adjectives]
    compound = [sentence.say(word, "NOUN") for word in toy]
    head = sentence.say(word, "NOUN")
    sentence.hang(opening[2], head, start)
    sentence.hang("amod", head, *described)
    sentence.hang("nn", head, *compound)
    sentence.phrases.append(Phrase(start, head + 1, group.members))
    return head


def plain(sentence: Sentence, *words: str) -> int:
    """Add determiner, adjectives and noun, without a phrase, and return the noun's index."""
    start = sentence.say(words[0], "DET")
    described = [sentence.say(word, "ADJ") for word in words[1:-1]]
    head = sentence.say(words[-1], "NOUN")
    sentence.hang("det", head, start)
    sentence.hang("amod", head, *described)
    return head


def scenery(sentence: Sentence, background: str, head: int) -> None:
    """Add `on a striped background` as a dependent of `head`."""
    preposition = sentence.add("on", "ADP", "prep", head)
    start = len(sentence.words)
    noun = plain(sentence, "a", background, "background")
    sentence.hang("pobj", preposition, noun)
    sentence.phrases.append(Phrase(start, noun + 1, ()))


def enumerate_groups(
    sentence: Sentence, groups: Sequence[Group], rng: Generator, *, exact: bool = False
) -> int:
    """Add `A`, `A and B` or `A , B and C`, and return the index of A's noun."""
    first = name(sentence, groups[0], rng, exact=exact)
    for group in groups[1:-1]:
        sentence.add(",", "PUNCT", "punct", first)
        sentence.hang("conj", first, name(sentence, group, rng, exact=exact))
    if len(groups) > 1:
        sentence.add("and", "CCONJ", "cc", first)
        sentence.hang("conj", first, name(sentence, groups[-1], rng, exact=exact))
    return first


def _adjectives(group: Group, rng: Generator) -> list[str]:
    """Return some adjectives that are true of every member, in English order."""
    looks = [looks_of(thing) for thing in group.things]
    return [
        word
        for word, probability in zip(looks[0], (0.15, 0.4, 0.35, 0.65), strict=True)
        if rng.random() < probability and word and all(word in others for others in looks)
    ]


def looks_of(thing: Thing) -> tuple[str, str, str, str]:
    """Return tilt, size, texture and colour as adjectives; "" for an attribute not mentioned."""
    size, texture = thing.size.removeprefix("medium"), thing.texture.removeprefix("plain")
    return "tilted" if thing.tilted else "", size, texture, thing.colour
