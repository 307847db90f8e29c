import re

import pytest
import torch
from fakes import Lengths

from vlbench.capabilities import TokenVectors
from vlbench.engine import Engine
from vlbench.errors import CannotDo
from vlbench.probes.generalization.class_vectors import class_vectors


class Letters:
    """Has a token for every two letters of a word: its vector is its place and its first letter."""

    def encode_tokens(self, texts):
        return [self._encode(text) for text in texts]

    def _encode(self, text):
        spans = [match.span() for match in re.finditer("[a-z]{1,2}", text)]
        vectors = torch.tensor([[float(i), float(ord(text[i]))] for i, _ in spans])
        return TokenVectors(spans, vectors)


def vectors(words, *names, prompt="oo: {}."):
    return class_vectors(Engine.for_tests(), words, names, prompt).tolist()


def test_a_class_is_the_first_token_of_its_name():
    assert vectors(Letters(), "dogs", "a cat") == [[4, ord("d")], [4, ord("a")]]


class Towers(Lengths, Letters):
    """Compares texts with images, and gives their words vectors too."""

    def preprocess(self, image): ...
    def encode_images(self, pixels): ...
    def similarity(self, images, texts): ...


@pytest.mark.parametrize("words", [Lengths(), Towers()])
def test_an_encoder_of_texts_gives_the_vector_of_the_prompt_if_it_reads_images_too(words):
    assert vectors(words, "dog", "bird") == [[8], [9]]


@pytest.mark.parametrize("prompt", ["oo: {}.", "{} and more"])
def test_a_name_without_a_vector_is_named(prompt):
    with pytest.raises(CannotDo, match="the word encoder has no vector for the class '17'"):
        vectors(Letters(), "dogs", "17", prompt=prompt)


def test_a_prompt_without_a_place_for_the_name_is_refused():
    with pytest.raises(ValueError, match=r"prompt 'a photo' has no {} for the class's name"):
        vectors(Lengths(), "dog", prompt="a photo")
