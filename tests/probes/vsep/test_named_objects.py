import pytest
import torch
from named_world import Detects, PlantedWords, ReadsRegions, StaticWords, world

from vlbench.capabilities import Regions, TokenVectors
from vlbench.data.coco_files import Named
from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.errors import DataError
from vlbench.probes.vsep.named_objects import (
    Boxes,
    ObjectEncoders,
    caption_vectors,
    find_objects,
    largest,
    mean_over,
    most_confident,
    name_vectors,
)

WORDS = StaticWords({"dog": torch.tensor([1.0, 0.0]), "cat": torch.tensor([0.0, 1.0])})


def regions(scores, labels):
    boxes = torch.tensor([[i, 0.0, i + 1.0, 1.0] for i in range(len(labels))])
    return Regions(boxes, torch.eye(len(labels)), torch.tensor(scores), labels, (9, 9))


def split_of(*images):
    vectors = torch.arange(2.0 * sum(map(len, images))).view(-1, 2)
    return world([], images, vectors).splits["test"]


def objects(split, encoders):
    engine = Engine.for_tests()
    names = sorted({name.word for row in split["named"] for name in row})
    return find_objects(encoders, split, engine, name_vectors(encoders.words, names, engine))


def test_the_most_confident_region_of_a_label_counts_and_the_first_of_equal_ones():
    found = regions([0.5, 0.9, 0.9, 0.3], ["dog", "dog", "dog", "cat"])
    assert most_confident(found, ["dog", "cat"], 0.0) == {"dog": 1, "cat": 3}
    assert most_confident(found, ["dog", "cat"], 0.5) == {"dog": 1}
    assert most_confident(found, ["eel"], 0.0) == {}
    # Without scores they are as confident as can be.
    assert most_confident(found._replace(scores=None), ["dog"], 0.99) == {"dog": 0}


@pytest.mark.parametrize("found", [None, regions([0.5], ["dog"])._replace(labels=None)])
def test_pictures_without_labelled_regions_ask_for_a_companion(found):
    with pytest.raises(DataError, match="no labelled regions; name a detector as companion"):
        most_confident(found, ["dog"], 0.0)


def test_the_largest_box_of_a_category_counts():
    boxes = torch.tensor([[0, 0, 2, 2], [0, 0, 3, 3], [0, 0, 9, 9], [5, 5, 8, 8]]).float()
    assert largest(boxes, ["dog", "dog", "cat", "dog"], ["dog"]) == {"dog": 1}


def test_objects_have_their_own_regions_and_words():
    split = split_of([("dog", "dog"), ("cat", "cat")], [("cat", "cat")])
    first, second = objects(split, ObjectEncoders(WORDS, None))
    assert [name.category for name in first.named] == ["dog", "cat"]
    assert first.regions.tolist() == [[0, 1], [2, 3]]
    assert [word.tolist() for word in first.words] == [[1, 0], [0, 1]]
    assert second.regions.tolist() == [[4, 5]]
    (unknown,) = objects(split_of([("dog", "hound")]), ObjectEncoders(WORDS, None))
    assert unknown.words == [None]
    with pytest.raises(ValueError, match="boxes 'silver'; there are gold, detected"):
        objects(split, ObjectEncoders(WORDS, None, Boxes("silver")))


def test_static_words_are_those_of_the_class_and_not_of_the_captions_form():
    words = StaticWords({"dog": torch.tensor([1.0, 0.0]), "puppies": torch.tensor([0.0, 1.0])})
    split = world([], [[("dog", "puppies")]], torch.ones(1, 2)).splits["test"]
    named = [[name._replace(word="dog") for name in row] for row in split["named"]]
    split = Split({**split.columns, "named": value_column(named)})
    (found,) = objects(split, ObjectEncoders(words, None))
    assert [word.tolist() for word in found.words] == [[1, 0]]
    assert [form.tolist() for form in found.forms] == [[0, 1]]


def test_words_in_context_are_those_of_the_caption():
    words = PlantedWords(lambda text, _: torch.tensor([float(len(text))]))
    (found,) = objects(split_of([("dog", "dog"), ("cat", "cat")]), ObjectEncoders(words, None))
    assert [word.tolist() for word in found.words] == [[10], [10]]
    assert found.forms is found.words


def test_a_category_without_a_confident_region_is_no_object():
    split = split_of([("dog", "dog"), ("cat", "cat")])
    half = Detects(lambda r: r._replace(scores=torch.tensor([0.9, 0.4])))
    (found,) = objects(split, ObjectEncoders(WORDS, half, Boxes(confidence=0.5)))
    assert [name.category for name in found.named] == ["dog"]
    assert found.regions.tolist() == [[0, 1]]


@pytest.mark.parametrize("source", ["gold", "detected"])
def test_a_region_encoder_encodes_one_box_of_each_category(source):
    encoder = ReadsRegions()
    split = split_of([("dog", "dog"), ("cat", "cat")])
    (found,) = objects(split, ObjectEncoders(WORDS, encoder, Boxes(source)))
    assert [len(boxes) for boxes in encoder.encoded] == [2, 2]  # the only picture passes again
    assert found.regions.tolist() == [[0, 1], [2, 3]]


def test_a_region_encoder_is_not_given_pictures_without_a_box():
    encoder = ReadsRegions()
    split = split_of([("dog", "dog")], [("cat", "cat")])
    uncertain = Boxes("detected", confidence=1.1)
    found = objects(split, ObjectEncoders(WORDS, encoder, uncertain))
    assert encoder.encoded == []
    assert [one.named for one in found] == [[], []]


DETECTED = "the most confident with a category's label, from confidence 0.7"
ENCODED = "encoded by the model"


@pytest.mark.parametrize(
    ("encoder", "source", "note"),
    [
        (None, "gold", f"regions of the data, {DETECTED}"),
        (Detects(None), "gold", f"regions that the model detects, {DETECTED}"),
        (ReadsRegions(), "gold", f"regions: the largest gold box of a category, {ENCODED}"),
        (ReadsRegions(), "detected", f"regions: boxes of the data, {DETECTED}, {ENCODED}"),
    ],
)
def test_a_row_notes_where_its_regions_come_from(encoder, source, note):
    assert ObjectEncoders(WORDS, encoder, Boxes(source, 0.7)).note == note


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
    assert vectors(StaticWords({})) == ({}, {}, True)


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


def test_a_row_notes_which_words_count():
    assert "class names, which" in vectors(StaticWords({"dog": DOG}), "dog").note
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
    place = ComputeSettings(torch.device("cpu"))
    options = {"store": Store(tmp_path), "identities": {id(words): identity}}
    name_vectors(words, ["dog"], Engine(place, **options))
    words.look_up = lambda *_: torch.zeros(2)
    again = name_vectors(words, ["dog"], Engine(place, **options)).alone["dog"]
    assert again.tolist() == [1.0 * stored] * 2
