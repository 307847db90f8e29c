import time
from itertools import permutations

import numpy as np
import pytest
from caption_world import tagged

from vlbench.metrics.items import Examples
from vlbench.probes.captioning.nouns import without_punctuation
from vlbench.probes.captioning.patterns import (
    has_pattern,
    has_prefix,
    letters,
    mine,
    own_ratios,
    paper_ratios,
    pattern_part,
)

# The examples of table 5 of the paper, each with the letters of its phrases.
CLIP = (
    "a image image of a white bathroom with a brown shower curtain near a corner area and seat "
    "floor holder"
)
LXMERT = "a man man posing a bike riding a bike bike riding a dirt near a road near a dirt ground"
VILBERT = "a bird that the kite above the sky above the beach towards this water"
EXAMPLES = {
    "uniter": ("a table table of the table tools", "NFN"),
    "rosita": ("a image image that is a a cabinets but a a cabinets but a a sink", "ITSNCNCN"),
    "rosita, second": ("a man man that is a a person bike a a dirt but a a rural dirt", "NTSNNCN"),
    "vilbert": (VILBERT, "NTNRNRNRN"),
    "clip": (CLIP, "IFNRNRNCN"),
    "lxmert": (LXMERT, "NRNRNRNRNRN"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_papers_examples_have_their_own_pattern(name):
    text, expected = EXAMPLES[name]
    assert letters(without_punctuation(tagged(text))) == expected
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
    assert letters(without_punctuation(tagged("his white dog . was near the cat"))) == "NXRN"


@pytest.mark.parametrize("end", ["", " there"])
def test_ten_thousand_words_take_no_time(end):
    text = " ".join(["a dog"] * 5000) + end
    start = time.perf_counter()
    for name in ("uniter", "rosita", "vilbert", "clip", "lxmert"):
        has_pattern(tagged("a image of " + text), name)
        has_prefix(tagged(text), f"{name}_image" if name == "rosita" else name)
    assert time.perf_counter() - start < 2


THINGS = ("dog", "cat", "owl", "cup", "hat")


def captions(*forms):
    """Return each form with every pair of different things in its places."""
    return [tagged(form.format(*pair)) for form in forms for pair in permutations(THINGS, 2)]


PICTURES = captions(*(f"a picture of {{}} {word} {{}}" for word in ("near", "above", "on")))


def test_a_planted_prefix_is_named_word_by_word():
    pattern = mine(PICTURES)
    assert pattern.prefix_name == "a+picture+of+NOUN.P+REL"
    assert pattern.name == "a+picture+of+NOUN.P+REL+((NOUN.P)*)?"


def test_what_fewer_than_half_share_is_no_word_of_the_prefix():
    forms = ("a {} near a {}", "the {} above the {}", "this {} of {}", "his {} on {}")
    assert mine(captions(*forms)).prefix_name == "NOUN.P+REL+NOUN.P"


@pytest.mark.parametrize(
    ("form", "group"),
    [
        ("a photo of a nice {} {}", "((NOUN.P)*)?"),
        ("a photo of a nice {} but {} but {}", "(((CCONJ)?+NOUN.P)*)?"),
        ("a photo of a nice {} near {} was {} near {}", "(((AUX)?+(REL)?+NOUN.P)*)?"),
    ],
)
def test_only_what_captions_need_stands_before_noun_phrases(form, group):
    # Five words, the longest prefix, come first.
    texts = [tagged(form.replace("{}", "{0}").format(one)) for one in THINGS]
    pattern = mine(texts)
    assert pattern.name == f"a+photo+of+a+nice+{group}"
    assert all(map(pattern.describes, texts))


def test_a_pattern_holds_of_captions_that_it_was_not_found_in():
    pattern = mine(PICTURES)
    assert pattern.begins(tagged("a picture of a bird above"))
    assert pattern.describes(tagged("a picture of this brown bird on the white boat ."))
    assert not pattern.begins(tagged("the picture of a bird above a cup"))
    assert not pattern.describes(tagged("a picture of a bird on there"))
    assert not pattern.begins([])


def test_the_first_element_is_there_even_where_few_share_it():
    forms = ("there {} {}", "of {} {}", "and {} {}", "is {} {}", "the {} {}")
    assert mine(captions(*forms)).prefix_name == "AUX"


def test_captions_without_a_word_have_no_pattern_and_do_not_matter_among_others():
    with pytest.raises(ValueError, match="no caption has a word"):
        mine([tagged("."), []])
    assert mine([[], *captions("a picture of {} near {}")]).prefix_name.startswith("a+picture+of")


IDS = [str(i) for i in range(8)]
IMAGES = Examples(IDS, IDS)
PLAIN = [tagged(f"the thing{i} and the other{i}") for i in range(8)]
LIKED = [tagged(f"a image of a thing{i}") for i in range(8)]
OTHER = [tagged(f"his thing{i} that the other{i}") for i in range(8)]
KINDS = {"favourites": [LIKED, OTHER], "ce": [PLAIN], "reference": [[*LIKED[:2], *PLAIN[2:]]]}


def values(ratios):
    scores = [ratio.score for ratio in ratios]
    return {(s.metric, s.at["captions"], s.at["pattern"]): s.value for s in scores}


def test_the_papers_patterns_are_counted_by_hand():
    found = values(paper_ratios(KINDS, IMAGES))
    assert len(found) == 3 * (6 + 5)
    assert found["prefix_ratio", "favourites", "clip"] == 0.5
    assert found["pattern_ratio", "favourites", "clip"] == 0.5
    assert found["prefix_ratio", "favourites", "vilbert"] == 0.5
    assert found["pattern_ratio", "favourites", "vilbert"] == 0.5
    assert found["prefix_ratio", "favourites", "rosita_image"] == 0
    assert found["prefix_ratio", "reference", "clip"] == 0.25
    assert {v for (_, kind, _), v in found.items() if kind == "ce"} == {0.0}


def test_a_pattern_found_in_one_half_is_counted_in_the_other():
    ratios, patterns = own_ratios(KINDS, IMAGES, seed=0)
    named = ["a+image+of+a+NOUN.P", "his+NOUN.P+that+the+NOUN.P"]
    assert [one.prefix_name for one in patterns] == named
    found = values(ratios)
    assert found["prefix_ratio", "favourites", "own"] == 1.0
    assert found["pattern_ratio", "favourites", "own"] == 1.0
    assert found["pattern_ratio", "ce", "own"] == 0.0
    assert {ratio.score.n for ratio in ratios} == {4}
    half = set(np.random.default_rng(0).permutation(8)[:4].tolist())
    assert {int(i) for ratio in ratios for i in ratio.examples.ids} == set(range(8)) - half


def test_the_part_names_the_patterns():
    first, *_ = pattern_part(KINDS, IMAGES, seed=0).notes
    assert "seed 0: a+image+of+a+NOUN.P+" in first
    assert "seed 1: his+NOUN.P+that+the+NOUN.P+" in first


def test_favourites_without_words_have_no_pattern_of_their_own():
    part = pattern_part({**KINDS, "favourites": [LIKED, [[]] * 8]}, IMAGES, seed=0)
    assert {score.at["pattern"] for score in part.scores}.isdisjoint({"own"})
    assert part.notes == []
