import pytest
import torch

from vlbench.errors import DataError
from vlbench.probes.captioning.captioner_files import UNKNOWN, Vocabulary, label, learn_vocabulary

WORDS = Vocabulary(("a", "cat", "hat", UNKNOWN))


def test_words_that_occur_five_times_or_less_are_unknown():
    vocabulary = learn_vocabulary(["A cat."] * 6 + ["a dog!"] * 5)
    assert vocabulary.words == ("a", "cat", UNKNOWN)


def test_without_rare_words_there_is_no_unknown_one():
    assert learn_vocabulary(["a cat", "a hat"], rare=0).words == ("a", "cat", "hat")


def test_punctuation_is_a_word_only_where_it_is_asked_for():
    told = ["Two cats , it 's a t-shirt ."]
    assert learn_vocabulary(told, rare=0).words == ("a", "cats", "it", "s", "tshirt", "two")
    kept = learn_vocabulary(told, rare=0, punctuation=True)
    assert set(kept.words) == {",", ".", "'s", "a", "cats", "it", "t-shirt", "two"}
    assert kept.split("A t-shirt, two cats .") == ["a", "t-shirt", "two", "cats", "."]


def test_a_text_becomes_numbers_and_numbers_a_text():
    assert WORDS.encode("A cat, in a hat.") == [1, 2, 4, 1, 3]
    assert WORDS.decode([1, 2, 0, 3]) == "a cat"
    assert WORDS.texts(torch.tensor([[3, 4, 1], [0, 0, 0]])) == ["hat UNK a", ""]


def test_without_unk_unknown_words_are_left_out():
    assert Vocabulary(("a", "cat")).encode("a small cat") == [1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\ncat", [1, 2]),
        ("a\u2028cat\r hat", [1, 2, 3]),
        ("a ||| cat", [1, 2]),
        ("", []),
        ("...", []),
        ("zebra", [4]),
    ],
)
def test_odd_texts_are_words_too(text, words):
    assert WORDS.encode(text) == words


def test_the_known_fraction_of_words():
    assert WORDS.known(["a cat", "a dog ran"]) == 3 / 5
    assert WORDS.known([""]) == 1


def test_long_captions_are_cut_to_sixteen_words_and_end():
    found = label(WORDS, [["cat " * 10_000, "a cat"], ["a hat"]])
    assert found.words[0].tolist() == [2] * 16 + [0]
    assert found.words[1].tolist() == [1, 2] + [0] * 15
    assert found.first.tolist() == [0, 2, 3]


def test_captions_without_words_are_left_out_and_an_image_of_none_but_them_is_named():
    assert label(WORDS, [["a", ""]]).first.tolist() == [0, 1]
    with pytest.raises(DataError, match="image 1 of the training captions has none with a word"):
        label(WORDS, [["a"], ["", "!"]])


def test_captions_are_drawn_as_neighbours_among_the_images_own():
    labels = label(WORDS, [["a"] * 7, ["cat"] * 3, ["hat"] * 2])
    rng = torch.Generator().manual_seed(0)
    drawn = labels.draw(torch.tensor([0, 1] * 500), 3, rng)
    assert (drawn[:, 1:] - drawn[:, :-1] == 1).all()
    assert set(drawn[::2, 0].tolist()) == {0, 1, 2, 3, 4}
    assert set(drawn[1::2, 0].tolist()) == {7}


def test_of_too_few_captions_some_are_drawn_again():
    labels = label(WORDS, [["a"], ["cat", "hat"]])
    drawn = labels.draw(torch.tensor([1] * 200), 5, torch.Generator().manual_seed(0))
    assert set(drawn.flatten().tolist()) == {1, 2}
