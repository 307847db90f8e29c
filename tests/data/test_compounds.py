from vlbench.data.compounds import (
    ANIMALS,
    ARTICLED,
    COLOURS,
    COMPOUNDS,
    FRUIT,
    HEADS,
    KINDS_OF,
    OPEN,
    PLACES,
)

SETS = [ANIMALS, ARTICLED, COLOURS, FRUIT, HEADS, OPEN, PLACES, *KINDS_OF.values()]


def test_compounds_are_two_lower_case_words():
    assert all(len(pair.split()) == 2 and pair == pair.lower() for pair in COMPOUNDS)


def test_all_other_exceptions_are_single_lower_case_words():
    assert all(word.isalpha() and word.islower() for words in SETS for word in words)


def test_a_noun_that_is_also_a_verb_is_modified_only_in_the_singular():
    assert {"stop", "stations", "station"} <= HEADS
    assert "stops" not in HEADS
