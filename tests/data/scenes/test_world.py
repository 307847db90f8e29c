import pytest

from vlbench.data.scenes.world import (
    CATEGORIES,
    COLOURS,
    FAMILY,
    HELD_OUT,
    HIERARCHY,
    NOUNS,
    TYPICAL,
    plural,
)


def test_typical_colours_are_of_known_categories_and_colours():
    assert set(TYPICAL) == set(CATEGORIES)
    assert {colour for colours in TYPICAL.values() for colour in colours} <= set(COLOURS)


PLURALS = [
    ("dog", "dogs"),
    ("puppy", "puppies"),
    ("bench", "benches"),
    ("fish", "fish"),
    ("oak", "oaks"),
]


@pytest.mark.parametrize(("noun", "many"), PLURALS)
def test_plurals_are_english(noun, many):
    assert plural(noun) == many


def test_held_out_things_are_one_category_of_each_family():
    families = [[c for c in categories if c in HELD_OUT] for categories in HIERARCHY.values()]
    assert [len(found) for found in families] == [1, 1, 1, 1]


def test_there_are_40_nouns_in_12_categories_in_4_families():
    assert [len(set(names)) for names in (NOUNS, CATEGORIES, FAMILY.values())] == [40, 12, 4]
