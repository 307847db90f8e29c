import pytest

from vlbench.data.records import Split, value_column
from vlbench.probes.question_generation.things import forms, names_a_thing, shown_names


def split(**columns):
    return Split({name: value_column(values) for name, values in columns.items()})


def test_names_are_found_as_words_in_singular_and_plural():
    names = forms("daisy") | forms("Bench") | forms("cat")
    for question in ("Is the daisy red ?", "how many daisies?", "two benches ?", "cats ?"):
        assert names_a_thing(question, names)
    for question in ("is the category here ?", "", "daisychain ?"):
        assert not names_a_thing(question, names)


def test_no_names_are_named_by_no_question():
    assert not names_a_thing("what is the cat ?", frozenset())


def test_a_noun_has_the_plurals_that_it_may_have():
    assert forms("Box") == {"box", "boxs", "boxes"}
    assert forms("TOY") == {"toy", "toys", "toyes", "toies"}


def test_an_image_has_the_names_of_all_its_columns():
    given = split(nouns=[["Cat", "dog"], [], ["sky"]], categories=[["animal"], ["boat"], []])
    assert shown_names(given, ["nouns", "categories"]) == [
        forms("cat") | forms("dog") | forms("animal"),
        forms("boat"),
        forms("sky"),
    ]
    assert shown_names(given, ["nouns"])[1] == frozenset()
    assert shown_names(given, []) == []


def test_a_column_that_a_split_lacks_is_named_with_those_it_has():
    with pytest.raises(KeyError, match="no column 'noun'; there are categories, nouns"):
        shown_names(split(nouns=[[]], categories=[[]]), ["nouns", "noun"])
