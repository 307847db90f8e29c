import pytest
from tagged_words import tagged

from vlbench.probes.captioning.mining import mine

THINGS = ("dog", "cat", "owl", "cup", "hat")


def captions(*forms):
    """Return each form with every pair of different things in its places."""
    return [
        tagged(form.format(one, other))
        for form in forms
        for one in THINGS
        for other in THINGS
        if one != other
    ]


def test_a_planted_prefix_is_named_word_by_word():
    pattern = mine(
        captions(*(f"a picture of {{}} {word} {{}}" for word in ("near", "above", "on")))
    )
    assert pattern.prefix_name == "a+picture+of+NOUN.P+REL"
    assert pattern.name == "a+picture+of+NOUN.P+REL+((NOUN.P)*)?"


def test_what_fewer_than_half_share_is_no_word_of_the_prefix():
    pattern = mine(
        captions("a {} near a {}", "the {} above the {}", "this {} of {}", "his {} on {}")
    )
    assert pattern.prefix_name == "NOUN.P+REL+NOUN.P"


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
    pattern = mine(
        captions(*(f"a picture of {{}} {word} {{}}" for word in ("near", "above", "on")))
    )
    assert pattern.begins(tagged("a picture of a bird above"))
    assert pattern.describes(tagged("a picture of this brown bird on the white boat ."))
    assert not pattern.begins(tagged("the picture of a bird above a cup"))
    assert not pattern.describes(tagged("a picture of a bird on there"))
    assert not pattern.begins([])


def test_the_first_element_is_there_even_where_few_share_it():
    forms = ("there {} {}", "of {} {}", "and {} {}", "is {} {}", "the {} {}")
    assert mine(captions(*forms)).prefix_name == "AUX"


def test_captions_without_a_word_have_no_pattern():
    with pytest.raises(ValueError, match="no caption has a word"):
        mine([tagged("."), []])


def test_an_empty_caption_among_others_does_not_matter():
    assert mine([[], *captions("a picture of {} near {}")]).prefix_name.startswith("a+picture+of")
