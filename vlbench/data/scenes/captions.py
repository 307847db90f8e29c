"""Five captions of a scene from templates, with words, parts of speech, arcs and phrases.

A template states only facts of the drawing; if no fact fits, it returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from numpy.random import Generator

from vlbench.data.coco_files import Phrase
from vlbench.data.scenes.facts import Fact, Group, SceneView
from vlbench.data.scenes.grammar import NUMBERS, Sentence, enumerate_groups, name, plain, scenery
from vlbench.data.scenes.world import FAMILY, pick

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
Template = Callable[[SceneView, Generator], Sentence | None]
PARTICIPLES = ("placed", "drawn", "painted", "seen")
PICTURES = ("picture", "drawing", "image")


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
    # No thing of this world completely hides another thing.
    adverb = [sentence.say("partly", "ADV")] if fact.kind == "front" else []
    index = sentence.say(verb, "VERB")
    sentence.hang("advmod", index, *adverb)
    sentence.hang("dobj", index, name(sentence, fact.object, rng))
    return index


def some_fact(view: SceneView, rng: Generator, kinds: Container[str]) -> Fact | None:
    """Return a fact of these kinds, or None; each kind that occurs has the same probability."""
    present = sorted({fact.kind for fact in view.facts if fact.kind in kinds})
    if not present:
        return None
    kind = present[int(rng.integers(len(present)))]
    facts = [fact for fact in view.facts if fact.kind == kind]
    return facts[int(rng.integers(len(facts)))]


def captions(view: SceneView, rng: Generator, *, count: int = 5) -> list[Sentence]:
    """Return `count` different captions; the first names every thing by its fine-grained noun.

    For half of the single things, all captions omit the colour or the texture, so that questions
    can ask for it.
    """
    view = _withhold(view, rng)
    forms = (_shows, _say_there, _fragment, _picture_of)
    complete = forms[int(rng.integers(len(forms)))](view, rng)
    sentences = {complete.text(): complete}
    while len(sentences) < count:
        for i in rng.permutation(len(TEMPLATES)).tolist():
            sentence = TEMPLATES[i](view, rng)
            if sentence and len(sentences) < count:
                sentences.setdefault(sentence.text(), sentence)
    return list(sentences.values())


def _withhold(view: SceneView, rng: Generator) -> SceneView:
    """Return a view in which half of the single things have no colour, or no texture."""
    half = rng.permutation(len(view.singles))[: (len(view.singles) + 1) // 2]
    changed: dict[Group, Group] = {}
    for group in (view.singles[i] for i in half.tolist()):
        (thing,) = group.things
        textured = thing.texture != "plain" and rng.random() < 0.5
        less = replace(thing, texture="plain") if textured else replace(thing, colour="")
        changed[group] = Group(group.members, (less,))

    def seen(group: Group) -> Group:
        return changed.get(group, group)

    return SceneView(
        [seen(group) for group in view.groups],
        [Fact(fact.kind, seen(fact.subject), seen(fact.object)) for fact in view.facts],
        [(seen(group), place) for group, place in view.places],
        view.background,
        view.count,
    )


def _shows(view: SceneView, rng: Generator, *, exact: bool = True) -> Sentence:
    """Say `the picture shows A and B .`."""
    sentence = Sentence()
    subject = plain(sentence, "the", pick(rng, PICTURES))
    root = sentence.say("shows", "VERB")
    sentence.hang("nsubj", root, subject)
    sentence.hang("dobj", root, enumerate_groups(sentence, _shuffle(view, rng), rng, exact=exact))
    sentence.stop(root)
    return sentence


def _say_there(view: SceneView, rng: Generator, *, exact: bool = True) -> Sentence:
    """Say `there are A and B .`, sometimes with the background."""
    sentence, groups = Sentence(), _shuffle(view, rng)
    word = sentence.say("there", "PRON")
    root = sentence.say("is" if len(groups[0].members) == 1 else "are", "VERB")
    sentence.hang("expl", root, word)
    sentence.hang("nsubj", root, enumerate_groups(sentence, groups, rng, exact=exact))
    if rng.random() < 0.4:
        scenery(sentence, view.background, root)
    sentence.stop(root)
    return sentence


def _fragment(view: SceneView, rng: Generator, *, exact: bool = True) -> Sentence:
    """Say `A and B on a striped background .`."""
    sentence = Sentence()
    root = enumerate_groups(sentence, _shuffle(view, rng), rng, exact=exact)
    scenery(sentence, view.background, root)
    sentence.stop(root)
    return sentence


def _picture_of(view: SceneView, rng: Generator, *, exact: bool = True) -> Sentence:
    """Say `a drawing of A and B .`."""
    sentence = Sentence()
    noun = pick(rng, PICTURES)
    root = plain(sentence, "an" if noun == "image" else "a", noun)
    preposition = sentence.add("of", "ADP", "prep", root)
    groups = _shuffle(view, rng)
    sentence.hang("pobj", preposition, enumerate_groups(sentence, groups, rng, exact=exact))
    sentence.stop(root)
    return sentence


def _some(view: SceneView, rng: Generator) -> Sentence:
    """Name some of the things, by fine-grained nouns or categories."""
    groups = _shuffle(view, rng)
    few = SceneView(groups[: 1 + int(rng.integers(len(groups)))], [], [], view.background, 0)
    forms = (_shows, _fragment, _picture_of)
    return forms[int(rng.integers(len(forms)))](few, rng, exact=False)


def _say_relation(view: SceneView, rng: Generator) -> Sentence | None:
    """Say `A above B .`, `A drawn above B .` or `there is A above B .`."""
    fact = some_fact(view, rng, PREPOSITIONS)
    if not fact:
        return None
    sentence, form = Sentence(), rng.integers(3)
    word = sentence.say("there", "PRON") if form == 0 else -1
    verb = sentence.say("is", "VERB") if form == 0 else -1
    subject = head = name(sentence, fact.subject, rng)
    if form == 0:
        sentence.hang("expl", verb, word)
        sentence.hang("nsubj", verb, subject)
    if form == 1:
        head = sentence.add(pick(rng, PARTICIPLES), "VERB", "partmod", subject)
    prepose(sentence, fact, head, rng)
    sentence.stop(verb if form == 0 else subject)
    return sentence


def _acting(view: SceneView, rng: Generator) -> Sentence | None:
    """Say `A faces B .` or `A is facing B .`."""
    fact = some_fact(view, rng, VERBS)
    if not fact:
        return None
    sentence, (present, participle) = Sentence(), verb_of(fact, rng)
    subject = name(sentence, fact.subject, rng)
    is_progressive = rng.random() < 0.5
    auxiliary = [sentence.say("is", "AUX")] if is_progressive else []
    verb = act(sentence, fact, participle if is_progressive else present, rng)
    sentence.hang("nsubj", verb, subject)
    sentence.hang("aux", verb, *auxiliary)
    sentence.stop(verb)
    return sentence


def _picture_of_acting(view: SceneView, rng: Generator) -> Sentence | None:
    """Say `a picture of A facing B .`."""
    fact = some_fact(view, rng, VERBS)
    if not fact:
        return None
    sentence = Sentence()
    root = plain(sentence, "a", "picture")
    preposition = sentence.add("of", "ADP", "prep", root)
    subject = name(sentence, fact.subject, rng)
    sentence.hang("pobj", preposition, subject)
    verb = act(sentence, fact, verb_of(fact, rng)[1], rng)
    sentence.hang("partmod", subject, verb)
    sentence.stop(root)
    return sentence


def _say_number(view: SceneView, rng: Generator) -> Sentence:
    """Say `three things on a striped background .` or `there are three things .`."""
    sentence, form = Sentence(), rng.integers(2)
    words = [sentence.say("there", "PRON")] if form else []
    verb = sentence.say("is" if view.count == 1 else "are", "VERB") if form else -1
    number = sentence.say(NUMBERS[view.count], "NUM")
    noun = sentence.say("thing" if view.count == 1 else "things", "NOUN")
    sentence.hang("num", noun, number)
    members = tuple(sorted(i for group in view.groups for i in group.members))
    sentence.phrases.append(Phrase(number, noun + 1, members))
    if form:
        sentence.hang("expl", verb, *words)
        sentence.hang("nsubj", verb, noun)
    scenery(sentence, view.background, noun)
    sentence.stop(verb if form else noun)
    return sentence


def _say_looks(view: SceneView, rng: Generator) -> Sentence | None:
    """Say `a dog is red .`, or for a textured thing `a dog covered with spots .`."""
    if not view.singles:
        return None
    group = view.singles[int(rng.integers(len(view.singles)))]
    sentence, thing = Sentence(), group.things[0]
    subject = name(sentence, group, rng, bare=True)
    if thing.texture != "plain" and rng.random() < 0.6:
        verb = sentence.add(pick(rng, ["covered", "decorated"]), "VERB", "partmod", subject)
        preposition = sentence.add("with", "ADP", "prep", verb)
        marks = "stripes" if thing.texture == "striped" else "spots"
        sentence.add(marks, "NOUN", "pobj", preposition)
        sentence.stop(subject)
        return sentence
    if not thing.colour:
        return None
    copula = sentence.say("is", "AUX")
    root = sentence.say(thing.colour, "ADJ")
    sentence.hang("nsubj", root, subject)
    sentence.hang("cop", root, copula)
    sentence.stop(root)
    return sentence


def _say_place(view: SceneView, rng: Generator) -> Sentence | None:
    """Say `a dog at the top of the picture .`."""
    if not view.places:
        return None
    group, place = view.places[int(rng.integers(len(view.places)))]
    sentence = Sentence()
    root = name(sentence, group, rng)
    preposition = sentence.add("at", "ADP", "prep", root)
    side = plain(sentence, "the", place)
    sentence.hang("pobj", preposition, side)
    of = sentence.add("of", "ADP", "prep", side)
    sentence.hang("pobj", of, plain(sentence, "the", pick(rng, PICTURES)))
    sentence.stop(root)
    return sentence


TEMPLATES: Sequence[Template] = (
    _some, _say_relation, _say_relation, _say_relation, _acting, _picture_of_acting, _say_number,
    _say_looks, _say_place,
)  # fmt: skip


def _shuffle(view: SceneView, rng: Generator) -> list[Group]:
    return [view.groups[i] for i in rng.permutation(len(view.groups)).tolist()]
