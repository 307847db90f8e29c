import numpy as np
import pytest

from vlbench.errors import TooFewRows
from vlbench.probes.captioning.nouns import Nouns
from vlbench.probes.captioning.twins import Caption

TAGS = {"dog": "NOUN", "dogs": "NOUN", "cat": "NOUN", "hat": "NOUN", "a": "X", "of": "X"}
TOLD = Nouns(TAGS, dict.fromkeys(TAGS, 9))


def caption(text, told=TOLD):
    return Caption.of(text, told.of(text))


def rng():
    return np.random.default_rng(0)


def test_a_caption_is_nouns_and_other_words_and_punctuation_is_neither():
    one = caption("A dog, -- of (cats) .")
    assert one.nouns == {1: "dog"}
    assert one.others == {0: "a", 3: "of", 4: "cats"}


def test_the_same_noun_is_replaced_by_the_same_one_and_keeps_its_punctuation():
    twin = caption('"Dog" a dog!').with_wrong_nouns(TOLD, ["cat"], rng())
    assert twin == '"hat" a hat!'


def test_a_letter_that_grows_in_lower_case_is_replaced_whole():
    assert caption("(\u0130t's-a), dog").with_other_words(TOLD, rng()) in {"(a), dog", "(of), dog"}


def test_a_form_of_a_noun_that_is_shown_is_not_wrong():
    drawn = {caption("a cat").with_wrong_nouns(TOLD, ["dogs"], rng()) for _ in range(9)}
    assert drawn == {"a hat"}


def test_nouns_without_another_and_words_without_another_are_told():
    with pytest.raises(TooFewRows, match="too few to draw 1 that an image does not show"):
        caption("a cat").with_wrong_nouns(TOLD, ["dogs", "hat"], rng())
    alone = Nouns({"a": "X", "dog": "NOUN"}, {"a": 9, "dog": 9})
    with pytest.raises(TooFewRows, match="no word to draw in place of 'a'"):
        caption("a dog", alone).with_other_words(alone, rng())


def test_another_word_is_never_the_same():
    assert caption("a of. Dog").with_other_words(TOLD, rng()) == "of a. Dog"
