import pytest

from vlbench.probes.captioning.templates import TEMPLATES, fill

# Table 7 of the paper, read by hand.
FILLED = {
    "uniter": "a bunch of the bananas table",
    "rosita": "a image image that is a a bunch but a a bananas but a a table",
    "vilbert": "a bunch that the bananas at the table",
    "clip": "a image image of bunch near a bananas near a table",
    "lxmert": "a bunch of a bananas of a table",
}
ONE = {
    "uniter": "a dog",
    "rosita": "a image image that is a a dog",
    "vilbert": "a dog",
    "clip": "a image image of dog",
    "lxmert": "a dog",
}


@pytest.mark.parametrize("name", FILLED)
def test_nouns_are_poured_into_a_template(name):
    assert fill(TEMPLATES[name], ["bunch", "bananas", "table"]) == FILLED[name]


@pytest.mark.parametrize("name", ONE)
def test_a_template_ends_with_its_last_noun(name):
    assert fill(TEMPLATES[name], ["dog"]) == ONE[name]


def test_there_are_five_templates():
    assert set(TEMPLATES) == set(FILLED)


def test_no_noun_is_refused():
    with pytest.raises(ValueError, match="no noun for a template"):
        fill(TEMPLATES["clip"], [])
