import pytest

from vlbench.data.coco_files import Arc
from vlbench.data.dependencies import Token, stanford, word_arcs


def sentence(text):
    """Return tokens of `word/TAG relation head`, heads counted from 1, 0 for the root."""
    tokens, start = [], 0
    for i, item in enumerate(text.split(", ")):
        word, relation, head = item.split(" ")
        word, tag = word.split("/")
        tokens.append(
            Token(start, start + len(word), tag, relation, int(head) - 1 if int(head) else i)
        )
        start += len(word) + 1
    return tokens


def arcs(text):
    return [tuple(arc) for arc in stanford(sentence(text))]


def test_a_case_of_universal_dependencies_becomes_a_preposition_with_an_object():
    # a man sits on benches
    found = arcs("a/DT det 2, man/NN nsubj 3, sits/VBZ root 0, on/IN case 5, benches/NNS obl 3")
    assert found == [("det", 1, 0), ("nsubj", 2, 1), ("prep", 2, 3), ("pobj", 3, 4)]


def test_a_nominal_of_a_noun_becomes_the_object_of_its_preposition():
    found = arcs("picture/NN root 0, of/IN case 3, dogs/NNS nmod 1")
    assert found == [("prep", 0, 1), ("pobj", 1, 2)]


def test_several_prepositions_form_a_chain():
    found = arcs("walks/VBZ root 0, out/IN case 4, of/IN case 4, houses/NNS obl 1")
    assert found == [("prep", 0, 1), ("prep", 1, 2), ("pobj", 2, 3)]


def test_an_agent_hangs_on_its_by():
    found = arcs("held/VBN root 0, by/IN case 3, men/NNS obl:agent 1")
    assert found == [("prep", 0, 1), ("pobj", 1, 2)]


def test_a_possessive_is_no_preposition():
    # man 's hat
    found = arcs("man/NN nmod:poss 3, 's/POS case 1, hat/NN root 0")
    assert found == [("poss", 2, 0), ("possessive", 0, 1)]


def test_stanford_and_clearnlp_prepositions_stay():
    found = arcs("sits/VBZ ROOT 0, on/IN prep 1, benches/NNS pobj 2")
    assert found == [("prep", 0, 1), ("pobj", 1, 2)]


STANFORDS = {
    "obj": "dobj", "nsubj:pass": "nsubjpass", "aux:pass": "auxpass", "csubj:pass": "csubjpass",
    "compound": "nn", "compound:prt": "prt", "nummod": "num", "acl:relcl": "rcmod",
    "relcl": "rcmod", "flat": "nn", "fixed": "mwe", "obl:tmod": "tmod", "dative": "iobj",
    "agent": "prep", "nsubjpass": "nsubjpass", "auxpass": "auxpass", "amod": "amod", "det": "det",
    "punct": "punct", "conj": "conj", "cop": "cop", "quantmod": "number", "obl": "npadvmod",
    "advmod:emph": "advmod",
}  # fmt: skip


def test_labels_are_stanfords():
    found = {theirs: arcs(f"one/NN {theirs} 2, two/NN root 0") for theirs in STANFORDS}
    assert found == {theirs: [(label, 1, 0)] for theirs, label in STANFORDS.items()}


@pytest.mark.parametrize(
    ("tag", "label"), [("VBG", "partmod"), ("VBN", "partmod"), ("JJ", "rcmod")]
)
def test_a_clause_with_a_participle_is_partmod(tag, label):
    assert arcs(f"man/NN root 0, sitting/{tag} acl 1") == [(label, 0, 1)]


def test_a_clause_with_an_infinitive_is_infmod():
    found = arcs("place/NN root 0, to/TO mark 3, sit/VB acl 1")
    assert found == [("mark", 2, 1), ("infmod", 0, 2)]


def test_tokens_within_a_word_are_aligned_by_their_characters():
    # the words of `well-fed dogs` are two, its tokens four
    tokens = [
        Token(0, 4, "RB", "advmod", 2), Token(4, 5, "HYPH", "punct", 2),
        Token(5, 8, "VBN", "amod", 3), Token(9, 13, "NNS", "root", 3),
    ]  # fmt: skip
    assert word_arcs(tokens, [(0, 8), (9, 13)]) == [Arc("amod", 1, 0)]
