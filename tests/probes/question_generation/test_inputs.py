import pytest
import torch
from question_fakes import TOY_WORDS, toy_world

from vlbench.capabilities import Regions
from vlbench.data.records import Split, value_column
from vlbench.errors import DataError, TooFewRows
from vlbench.probes.question_generation import inputs
from vlbench.probes.question_generation.inputs import (
    ObjectReader,
    Objects,
    StepExamples,
    Texts,
    forms,
    names_a_thing,
    objects_of,
    pairs_of,
    select_asked,
    shown_names,
)

TEXTS = Texts(TOY_WORDS, 3, 6)


def test_boxes_are_fractions_of_width_and_height_beside_the_vector():
    boxes = torch.tensor([[0.0, 5.0, 10.0, 10.5]])
    regions = Regions(boxes, torch.tensor([[7.0, 8.0]]), None, None, (20, 10))
    # A detector's half pixel outside counts as the border.
    assert objects_of(regions, 1).tolist() == [[7, 8, 0, 0.5, 0.5, 1]]


def test_question_j_goes_with_caption_j_modulo_their_number():
    found = select_asked(toy_world(2, 2).splits["train"], ())._replace(
        captions=[["a here", "what", "is"], ["here"]],
        questions=[["what ?"], ["is ?", "the ?", "a ?"]],
    )
    pairs = pairs_of(found, TEXTS)
    said = [(TEXTS.question(pair.caption), TEXTS.question(pair.question)) for pair in pairs]
    assert said == [("a here", "what?"), ("here", "is?"), ("here", "the?"), ("here", "a?")]
    assert [pair.image for pair in pairs] == [0, 1, 1, 1]


def test_a_question_has_its_end_unless_it_is_cut():
    ids = TOY_WORDS.convert_tokens_to_ids
    assert TEXTS.questions(["what is ?"]) == [[*ids(["what", "is", "?"]), 3]]
    told = ["what is the a here ?", "what is the a ?"]
    cut, whole = TEXTS.questions(told)
    assert cut == ids(["what", "is", "the", "a", "here", "?"])
    assert whole == [*ids(["what", "is", "the", "a", "?"]), 3]
    assert TEXTS.cut(told) == 1


def test_a_caption_without_a_token_is_refused():
    with pytest.raises(DataError, match="the caption '' has no token"):
        TEXTS.captions(["a here", ""])


def test_with_things_only_questions_count_that_name_one():
    data = toy_world(6, 6)
    found = select_asked(data.splits["train"], ["names"])
    assert len(found.questions) == 6
    other = data.splits["train"].select([1, 2, 3])
    shifted = {**data.splits["train"].select([0, 1, 2]).columns, "names": other["names"]}
    with pytest.raises(TooFewRows, match="0 images with a question"):
        select_asked(type(other)(shifted), ["names"])


def test_steps_read_regions_captions_or_both():
    found = select_asked(toy_world(2, 2).splits["train"], ())
    objects = Objects(found.split["regions"], found.ids, ObjectReader(2))
    pairs = pairs_of(found, TEXTS)
    for read, has_caption, length in ((objects, True, 6), (objects, False, 3), (None, True, 3)):
        assert StepExamples(pairs, read, has_caption)[0].source.length == length


def test_regions_are_read_once_while_there_is_memory(monkeypatch):
    found = select_asked(toy_world(3, 2).splits["train"], ())
    read = []

    class Counts(ObjectReader):
        def read(self, regions, names):
            read.extend(names)
            return super().read(regions, names)

    monkeypatch.setattr(inputs, "MOST_BYTES", 1)
    objects = Objects(found.split["regions"], found.ids, Counts(2))
    for i in (0, 0, 1, 1):
        assert torch.equal(objects[i], objects_of(found.split["regions"][i], 2))
    assert read == ["0", "1", "1"]


def split(**columns):
    return Split({name: value_column(values) for name, values in columns.items()})


def test_names_are_found_as_words_in_singular_and_plural():
    names = forms("daisy") | forms("Bench") | forms("cat")
    for question in ("Is the daisy red ?", "how many daisies?", "two benches ?", "cats ?"):
        assert names_a_thing(question, names)
    for question in ("is the category here ?", "", "daisychain ?"):
        assert not names_a_thing(question, names)
    assert not names_a_thing("what is the cat ?", frozenset())


def test_a_question_about_a_thing_and_itself_names_no_thing():
    names = forms("hound") | forms("dog")
    for question in (
        "is the hound to the left of the hound ?",
        "is the small hound above the small hound ?",
        "is the dog the dog ?",
    ):
        assert not names_a_thing(question, names)
    for question in (
        "is the small hound to the left of the hound ?",
        "is the hound to the left of the hounds ?",
        "what kind of dog is the dog ?",
        "is the tree on the left of the hound to the left ?",
        "is a hound beside a hound ?",
    ):
        assert names_a_thing(question, names)


def test_a_noun_has_the_plurals_that_it_may_have():
    assert forms("Box") == {"box", "boxs", "boxes"}
    assert forms("TOY") == {"toy", "toys", "toyes", "toies"}


def test_an_image_has_the_names_of_all_its_columns():
    given = split(nouns=[["Cat", "dog"], [], ["sky"]], categories=[["animal"], ["boat"], []])
    first, *rest = shown_names(given, ["nouns", "categories"])
    assert first == forms("cat") | forms("dog") | forms("animal")
    assert rest == [forms("boat"), forms("sky")]
    assert shown_names(given, ["nouns"])[1] == frozenset()
    assert shown_names(given, []) == []


def test_a_column_that_a_split_lacks_is_named_with_those_it_has():
    with pytest.raises(DataError, match="no column 'noun'; they have categories, nouns"):
        shown_names(split(nouns=[[]], categories=[[]]), ["nouns", "noun"])
