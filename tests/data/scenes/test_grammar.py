from numpy.random import default_rng

from vlbench.data.coco_files import Phrase
from vlbench.data.scenes.facts import Group
from vlbench.data.scenes.grammar import Sentence, enumerate_groups, name, plain, scenery
from vlbench.data.scenes.layout import several, single


def test_every_phrase_is_words_of_its_caption(rows):
    for captions, words, phrases in zip(
        rows["captions"], rows["words"], rows["phrases"], strict=True
    ):
        assert [caption.split() for caption in captions] == words
        ends = [(p, len(w)) for w, ps in zip(words, phrases, strict=True) for p in ps]
        assert all(0 <= phrase.start < phrase.stop < end for phrase, end in ends)


def test_every_word_has_a_tag(rows):
    universal = {"ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "NOUN", "NUM", "PRON", "PUNCT", "VERB"}
    for words, tags in zip(rows["words"], rows["tags"], strict=True):
        assert [len(w) for w in words] == [len(t) for t in tags]
        assert {tag for sentence in tags for tag in sentence} <= universal


def test_every_sentence_is_a_tree_with_one_root(rows):
    for all_words, all_arcs in zip(rows["words"], rows["arcs"], strict=True):
        for words, arcs in zip(all_words, all_arcs, strict=True):
            heads = {arc.dependent: arc.head for arc in arcs}
            assert len(heads) == len(arcs) == len(words) - 1
            assert {*heads, *heads.values()} == set(range(len(words)))
            assert len({_root(heads, word) for word in range(len(words))}) == 1


def _root(heads, word):
    for _ in range(len(heads) + 1):
        word = heads.get(word, word)
    return word


def test_an_enumeration_has_stanford_dependencies():
    sentence, scene = Sentence(), several(3, "dog", twins=False, rng=default_rng(0))
    groups = [Group((i,), (thing,)) for i, thing in enumerate(scene.things)]
    head = enumerate_groups(sentence, groups, default_rng(0), exact=True)
    relations = [arc.relation for arc in sentence.arcs if arc.head == head]
    assert relations[-4:] == ["punct", "conj", "cc", "conj"]
    assert [sentence.words[p.stop - 1] for p in sentence.phrases] == [g.noun for g in groups]


def test_a_bare_noun_phrase_is_the_noun():
    sentence, thing = Sentence(), single("owl", default_rng(0)).things[0]
    name(sentence, Group((0,), (thing,)), default_rng(0), exact=True, bare=True)
    assert (sentence.words, sentence.tags) == (["the", "owl"], ["DET", "NOUN"])
    assert [tuple(arc) for arc in sentence.arcs] == [("det", 1, 0)]


def test_twins_are_counted_and_share_a_phrase():
    sentence, thing = Sentence(), single("puppy", default_rng(0)).things[0]
    name(sentence, Group((1, 3), (thing, thing)), default_rng(0), exact=True, bare=True)
    assert sentence.words[0] == "two"
    assert sentence.words[-1] == "puppies"
    assert sentence.phrases == [Phrase(0, len(sentence.words), (1, 3))]


def test_a_plain_noun_phrase_is_no_phrase_and_a_background_has_no_boxes():
    sentence = Sentence()
    head = plain(sentence, "the", "left")
    assert sentence.phrases == []
    scenery(sentence, "striped", head)
    sentence.stop(head)
    assert sentence.text() == "the left on a striped background ."
    assert sentence.phrases == [Phrase(3, 6, ())]
