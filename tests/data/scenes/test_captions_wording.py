import pytest
from numpy.random import default_rng

from vlbench.data.scenes.captions import PREPOSITIONS, act, prepose, some_fact, verb_of
from vlbench.data.scenes.facts import Fact, Group, SceneView
from vlbench.data.scenes.grammar import Sentence
from vlbench.data.scenes.layout import single


def fact(kind, subject="owl", other="taxi"):
    things = [single(noun, default_rng(0)).things[0] for noun in (subject, other)]
    return Fact(kind, *(Group((i,), (thing,)) for i, thing in enumerate(things)))


CHAINS = [
    ("left", ["to", "the", "left", "of"], {"prep": 2, "pobj": 2}),
    ("front", ["in", "front", "of"], {"prep": 2, "pobj": 2}),
    ("behind", ["behind"], {"prep": 1, "pobj": 1}),
]


@pytest.mark.parametrize(("kind", "words", "relations"), CHAINS)
def test_a_preposition_of_several_words_is_a_chain(kind, words, relations):
    sentence = Sentence()
    root = sentence.say("it", "PRON")
    prepose(sentence, fact(kind), root, default_rng(0))
    assert sentence.words[1 : 1 + len(words)] == words
    found = [arc.relation for arc in sentence.arcs]
    assert {relation: found.count(relation) for relation in relations} == relations


def test_only_an_animal_watches():
    verbs = {s: {verb_of(fact("faces", s), default_rng(i))[0] for i in range(9)} for s in NOUNS}
    assert verbs == {"owl": {"watches", "faces"}, "van": {"faces"}}


NOUNS = ("owl", "van")


def test_a_thing_in_front_hides_the_other_only_partly():
    sentence = Sentence()
    verb = act(sentence, fact("front"), "hides", default_rng(0))
    assert sentence.words[:2] == ["partly", "hides"]
    assert [tuple(arc) for arc in sentence.arcs if arc.relation == "advmod"] == [
        ("advmod", verb, 0)
    ]


def test_only_facts_of_the_given_kinds_are_stated():
    view = SceneView([], [fact("dwarfs"), fact("near")], [], "plain", 2)
    assert some_fact(view, default_rng(0), PREPOSITIONS).kind == "near"
    assert some_fact(view, default_rng(0), {"left"}) is None
