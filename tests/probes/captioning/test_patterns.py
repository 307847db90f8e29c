import time

import pytest
from tagged_words import tagged

from vlbench.probes.captioning.patterns import has_pattern, has_prefix, letters, spoken

# The examples of table 5 of the paper, each with the letters of its phrases.
EXAMPLES = {
    "uniter": ("a table table of the table tools", "NFN"),
    "rosita": ("a image image that is a a cabinets but a a cabinets but a a sink", "ITSNCNCN"),
    "rosita, second": ("a man man that is a a person bike a a dirt but a a rural dirt", "NTSNNCN"),
    "vilbert": (
        "a bird that the kite above the sky above the beach towards this water",
        "NTNRNRNRN",
    ),
    "clip": (
        (
            "a image image of a white bathroom with a brown shower curtain near a corner area"
            " and seat floor holder"
        ),
        "IFNRNRNCN",
    ),
    "lxmert": (
        "a man man posing a bike riding a bike bike riding a dirt near a road near a dirt ground",
        "NRNRNRNRNRN",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_papers_examples_have_their_own_pattern(name):
    text, expected = EXAMPLES[name]
    assert letters(spoken(tagged(text))) == expected
    assert has_pattern(tagged(text), name.partition(",")[0])


@pytest.mark.parametrize(
    ("text", "prefixes"),
    [
        (EXAMPLES["uniter"][0], {"uniter", "lxmert"}),
        (EXAMPLES["rosita"][0], {"rosita_image", "vilbert"}),
        (EXAMPLES["rosita, second"][0], {"rosita_nouns", "vilbert"}),
        (EXAMPLES["vilbert"][0], {"vilbert"}),
        (EXAMPLES["clip"][0], {"clip", "uniter", "lxmert"}),
        (EXAMPLES["lxmert"][0], {"uniter", "lxmert"}),
        ("a closeup image of a dog", {"clip", "uniter", "lxmert"}),
        ("there is a dog", set()),
        ("a dog", set()),
        ("", set()),
    ],
)
def test_a_caption_has_the_prefixes_that_it_begins_with(text, prefixes):
    names = ("uniter", "rosita_image", "rosita_nouns", "vilbert", "clip", "lxmert")
    assert {name for name in names if has_prefix(tagged(text), name)} == prefixes


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a table of", "uniter"),  # nothing follows the prefix
        ("a table of the chair near", "lxmert"),  # the end is no noun phrase
        ("a table of the chair and a cup", "lxmert"),  # no conjunctions there
        ("a dog of a cat", "clip"),  # no image
        ("the image of a cat", "clip"),  # not `a`
        ("", "uniter"),
    ],
)
def test_a_pattern_describes_all_of_a_caption_or_does_not_hold(text, name):
    assert not has_pattern(tagged(text), name)


def test_possessives_and_adjectives_are_part_of_a_noun_phrase_and_punctuation_of_nothing():
    assert letters(spoken(tagged("his white dog . was near the cat"))) == "NXRN"


@pytest.mark.parametrize("end", ["", " there"])
def test_ten_thousand_words_take_no_time(end):
    text = " ".join(["a dog"] * 5000) + end
    start = time.perf_counter()
    for name in ("uniter", "rosita", "vilbert", "clip", "lxmert"):
        has_pattern(tagged("a image of " + text), name)
        has_prefix(tagged(text), f"{name}_image" if name == "rosita" else name)
    assert time.perf_counter() - start < 2
