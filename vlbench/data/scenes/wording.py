"""Words for the relations between two things: prepositions and verbs."""

from __future__ import annotations

from collections.abc import Container

from numpy.random import Generator

from vlbench.data.scenes.facts import Fact, View
from vlbench.data.scenes.grammar import Sentence, name, plain
from vlbench.data.scenes.world import FAMILY

PREPOSITIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "left": (("to", "the", "left", "of"),),
    "right": (("to", "the", "right", "of"),),
    "above": (("above",), ("over",)),
    "below": (("below",), ("under",)),
    "near": (("near",), ("beside",)),
    "behind": (("behind",),),
    "front": (("in", "front", "of"),),
}
# The third person and the participle of each verb.
VERBS: dict[str, tuple[tuple[str, str], ...]] = {
    "faces": (("faces", "facing"),),
    "dwarfs": (("dwarfs", "dwarfing"),),
    "front": (("hides", "hiding"), ("covers", "covering")),
}
# Verbs for an animal that faces something.
WATCHES = (("watches", "watching"), ("faces", "facing"))


def prepose(sentence: Sentence, fact: Fact, head: int, rng: Generator) -> None:
    """Add a preposition of up to four words, and its object."""
    options = PREPOSITIONS[fact.kind]
    words = options[int(rng.integers(len(options)))]
    preposition = sentence.add(words[0], "ADP", "prep", head)
    if len(words) > 1:
        place = plain(sentence, *words[1:-1]) if len(words) == 4 else sentence.say(words[1], "NOUN")
        sentence.hang("pobj", preposition, place)
        preposition = sentence.add(words[-1], "ADP", "prep", place)
    sentence.hang("pobj", preposition, name(sentence, fact.object, rng))


def verb_of(fact: Fact, rng: Generator) -> tuple[str, str]:
    """Return the third person and the participle of a verb that states a fact."""
    animal = FAMILY[fact.subject.category] == "animal"
    options = WATCHES if animal and fact.kind == "faces" else VERBS[fact.kind]
    return options[int(rng.integers(len(options)))]


def act(sentence: Sentence, fact: Fact, verb: str, rng: Generator) -> int:
    """Add a verb and its object, and return the verb's index."""
    # No thing of this world hides another one completely.
    adverb = [sentence.say("partly", "ADV")] if fact.kind == "front" else []
    index = sentence.say(verb, "VERB")
    sentence.hang("advmod", index, *adverb)
    sentence.hang("dobj", index, name(sentence, fact.object, rng))
    return index


def some_fact(view: View, rng: Generator, kinds: Container[str]) -> Fact | None:
    """Return a fact of these kinds, or None; each kind that occurs has the same probability."""
    known = sorted({fact.kind for fact in view.facts if fact.kind in kinds})
    if not known:
        return None
    kind = known[int(rng.integers(len(known)))]
    facts = [fact for fact in view.facts if fact.kind == kind]
    return facts[int(rng.integers(len(facts)))]
