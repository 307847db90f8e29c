"""Five questions about a scene, with answers that are true of its drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numpy.random import Generator

from vlbench.data.scenes.facts import Fact, Group, SceneView
from vlbench.data.scenes.grammar import NUMBERS, Sentence, looks_of
from vlbench.data.scenes.world import CATEGORIES, FAMILY, plural

# For yes-no questions about a fact: the kind of fact with the answer no, and the words to use.
OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}
WORDS = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}
TEXTURED = ("striped", "spotted")

# The nouns by which a caption may mention a texture.
MARKS = {"stripes": "striped", "spots": "spotted"}

# The number of questions about attributes that no caption mentions, if the scene has them.
UNTOLD = 2


class Question(NamedTuple):
    """A question and its answer."""

    text: str
    answer: str


def questions(
    view: SceneView, captions: Sequence[Sentence], rng: Generator, *, count: int = 5
) -> list[Question]:
    """Return `count` different questions, of as many sorts as the scene allows.

    The first questions mention an attribute of a thing that no caption mentions, so they cannot be
    asked from the captions only.
    """
    sorts = [
        [Question("how many things are there ?", NUMBERS[view.count])],
        [Question("what is in the background ?", f"a {view.background} background")],
        [q for group in view.groups for q in _looks(group)],
        [_kind(group) for group in view.groups],
        [_number(group) for group in view.groups],
        _presence(view, rng),
        [q for fact in view.facts if fact.kind in OPPOSITE for q in _relation(fact)],
        _what(view),
    ]
    untold = untold_looks(view, captions)
    questions: dict[str, Question] = {}
    for i in rng.permutation(len(untold)).tolist()[:UNTOLD]:
        group, look = untold[i]
        choices = _told_by_looks(view, group, f"{look} {group.noun}")
        question = choices[int(rng.integers(len(choices)))]
        questions.setdefault(question.text, question)
    while len(questions) < count:
        for i in rng.permutation(len(sorts)).tolist():
            if sorts[i] and len(questions) < count:
                question = sorts[i][int(rng.integers(len(sorts[i])))]
                questions.setdefault(question.text, question)
    return list(questions.values())


def untold_looks(view: SceneView, captions: Sequence[Sentence]) -> list[tuple[Group, str]]:
    """Return sizes, textures and colours of single things that no caption mentions.

    A caption mentions an attribute of a thing in a phrase that names it, or outside all phrases.
    """
    told_looks: set[tuple[int, str]] = set()
    for sentence in captions:
        inside = {i for p in sentence.phrases for i in range(p.start, p.stop)}
        outside = [word for i, word in enumerate(sentence.words) if i not in inside]
        for phrase in sentence.phrases:
            words = [*sentence.words[phrase.start : phrase.stop], *outside]
            told_looks |= {(member, MARKS.get(w, w)) for member in phrase.boxes for w in words}
    return [
        (group, look)
        for group in view.singles
        for look in looks_of(group.things[0])[1:]
        if look and (group.members[0], look) not in told_looks
    ]


def _told_by_looks(view: SceneView, group: Group, name: str) -> list[Question]:
    """Ask where a thing is and what is beside it; if neither is known, whether it is there."""
    where = [
        Question(f"where is the {name} ?", f"at the {place}")
        for owner, place in view.places
        if owner == group
    ]
    beside = [
        Question(f"what is {WORDS[fact.kind]} the {name} ?", fact.subject.noun)
        for fact in view.facts
        if fact.object == group and fact.kind in WORDS
    ]
    return where + beside or [Question(f"is there a {name} ?", "yes")]


def _looks(group: Group) -> list[Question]:
    if len(group.members) > 1:
        return []
    thing, noun = group.things[0], group.noun
    texture = [Question(f"is the {noun} {t} ?", _yes(t == thing.texture)) for t in TEXTURED]
    size = [Question(f"is the {noun} {s} ?", _yes(s == thing.size)) for s in ("small", "large")]
    sized = size if thing.size != "medium" else []
    return [Question(f"what color is the {noun} ?", thing.colour), *texture, *sized]


def _kind(group: Group) -> Question:
    verb, it = (
        ("is", group.category) if len(group.members) == 1 else ("are", plural(group.category))
    )
    return Question(f"what kind of {group.category} {verb} the {it} ?", group.noun)


def _number(group: Group) -> Question:
    number = NUMBERS[len(group.members)]
    return Question(f"how many {plural(group.category)} are there ?", number)


def _presence(view: SceneView, rng: Generator) -> list[Question]:
    """Ask for a category that is present and for one that is absent."""
    present = {group.category for group in view.groups}
    absent = [category for category in CATEGORIES if category not in present]
    picked = [view.groups[0].category, absent[int(rng.integers(len(absent)))]]
    return [Question(f"is there a {category} ?", _yes(category in present)) for category in picked]


def _relation(fact: Fact) -> list[Question]:
    """Ask whether a relation holds, and whether its opposite does."""
    a, b = fact.subject.noun, fact.object.noun
    return [
        Question(f"is the {a} {WORDS[fact.kind]} the {b} ?", "yes"),
        Question(f"is the {a} {WORDS[OPPOSITE[fact.kind]]} the {b} ?", "no"),
    ]


def _what(view: SceneView) -> list[Question]:
    """Ask for the thing of a family that has only one thing."""
    families = [FAMILY[group.category] for group in view.groups]
    return [
        Question(f"which {family} is there ?", group.noun)
        for family, group in zip(families, view.groups, strict=True)
        if families.count(family) == 1
    ]


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
