import pytest
import torch
from named_world import PlantedWords, StaticWords

from vlbench.capabilities import TokenVectors
from vlbench.data.annotations import Named
from vlbench.data.records import value_column
from vlbench.engine import Engine
from vlbench.engine.settings import ComputeSettings
from vlbench.engine.store import Store
from vlbench.probes.vsep.word_forms import caption_vectors, mean_over, name_vectors

DOG, HOT = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 4.0])


def vectors(words, *names):
    return name_vectors(words, list(names), Engine.for_tests())


def test_a_word_vector_is_the_mean_over_tokens_that_overlap_the_word():
    tokens = TokenVectors([(0, 2), (2, 5), (6, 9)], torch.tensor([[1.0], [3.0], [9.0]]))
    assert mean_over(tokens, 1, 5).tolist() == [2.0]
    assert mean_over(tokens, 5, 6) is None


def test_a_name_of_several_words_is_their_mean():
    found = vectors(StaticWords({"hot": HOT, "dog": DOG}), "dog", "hot dog", "cat")
    assert found.static
    assert found.alone["dog"].tolist() == [1, 0]
    assert found.alone["hot dog"].tolist() == [0.5, 2]
    assert found.alone["cat"] is None


def test_a_name_that_is_one_word_with_an_underscore_has_its_own_vector():
    words = StaticWords({"hot": HOT, "dog": DOG, "hot_dog": -DOG, "A": HOT})
    found = vectors(words, "hot dog", "dog")
    assert found.alone["hot dog"].tolist() == [-1, 0]
    assert found.prompted["hot dog"].tolist() == [-0.5, 2]
    assert found.prompted["dog"].tolist() == [0.5, 2]


def test_a_static_encoders_prompt_is_the_mean_over_all_its_words():
    words = StaticWords({"dog": DOG, "photo": HOT})
    assert vectors(words, "dog").prompted["dog"].tolist() == [0.5, 2]
    assert vectors(words, "cat").prompted["cat"] is None


def test_an_encoder_in_context_has_the_names_vector_in_the_prompt():
    words = PlantedWords(lambda text, word: torch.tensor([float(len(text)), float(len(word))]))
    found = vectors(words, "hot dog")
    assert not found.static
    assert found.alone["hot dog"].tolist() == [7, 3]
    assert found.prompted["hot dog"].tolist() == [20, 3]


def test_no_names_have_no_vectors():
    assert vectors(StaticWords({})) == ({}, {}, True)


@pytest.mark.parametrize(
    ("words", "note"), [(StaticWords({"dog": DOG}), "class names, since they")]
)
def test_a_row_notes_which_words_count(words, note):
    assert note in vectors(words, "dog").note
    in_context = PlantedWords(lambda text, _: torch.tensor([float(len(text))]))
    assert vectors(in_context, "dog").note == "words: their vectors in the caption"


def test_words_in_captions_are_those_between_their_characters():
    words = PlantedWords(lambda text, word: None if word == "cat" else torch.tensor([len(text)]))
    named = value_column([[Named("dog", "dog", 2, 6), Named("cat", "cat", 7, 10)]])
    texts = value_column(["2 dogs cat"], "text")
    ((dogs, cat),) = caption_vectors(words, texts, named, Engine.for_tests())
    assert (dogs.tolist(), cat) == ([10], None)


@pytest.mark.parametrize(("identity", "stored"), [("a fake", True), ("", False)])
def test_vectors_of_a_known_model_alone_are_stored(tmp_path, identity, stored):
    words = StaticWords({"dog": torch.ones(2)})
    place, store = ComputeSettings(torch.device("cpu")), Store(tmp_path)
    engine = Engine(place, store=store, identities={id(words): identity})
    name_vectors(words, ["dog"], engine)
    words.look_up = lambda *_: torch.zeros(2)
    again = name_vectors(words, ["dog"], engine).alone["dog"]
    assert again.tolist() == [1.0 * stored] * 2
