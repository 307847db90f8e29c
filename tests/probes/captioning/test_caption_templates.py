import pytest
from caption_world import CAPTIONS, Taste, nothing, results, right_nouns, scores_of, world
from item_means import item_means, scores_with_items

from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.captioning.caption_templates import TEMPLATES, caption_templates, fill

NAMES = ("uniter", "rosita", "vilbert", "clip", "lxmert")


def probe(taste, folder, captions=CAPTIONS):
    file = results(folder, captions)
    return caption_templates(Taste(taste), world(), Engine.for_tests(), captions=file)


def grammatical(words, _shown):
    return float("a a" not in " ".join(words) and "image" not in words and "of" not in words)


def fond_of_images(words, _shown):
    return float(words.count("image"))


def test_a_scorer_of_right_nouns_takes_no_side(tmp_path):
    found = scores_of(probe(right_nouns, tmp_path))
    assert found["accuracy",] == pytest.approx(1 / 6)
    assert [found["chosen", name] for name in NAMES] == pytest.approx([1 / 6] * 5)
    assert [found["match_score", name] for name in ("none", *NAMES)] == [2] * 6
    assert found["accuracy_tied",] == 1


def test_a_scorer_chooses_the_texts_that_it_likes_and_ties_share(tmp_path):
    found = scores_of(probe(fond_of_images, tmp_path))
    assert found["accuracy",] == found["accuracy_another_image",] == 0
    assert [found["chosen", name] for name in NAMES] == [0, 0.5, 0, 0.5, 0]
    assert [found["match_score", name] for name in NAMES] == [0, 2, 0, 2, 0]


def test_a_scorer_that_wants_grammar_shares_between_the_caption_and_vilbert(tmp_path):
    found = scores_of(probe(grammatical, tmp_path))
    assert (found["accuracy",], found["chosen", "vilbert"]) == (0.5, 0.5)


def test_a_constant_scorer_has_chance_everywhere(tmp_path):
    outcome = probe(nothing, tmp_path, ["a dog near a cat", "a dog"])
    judged = [s for s in outcome.scores if s.chance is not None and "text_only" not in s.metric]
    assert [s.value for s in judged] == pytest.approx([s.chance for s in judged])


def test_texts_that_are_the_same_count_as_one_of_a_choice(tmp_path):
    # Of `the dog`, UNITER's, ViLBERT's and LXMERT's texts are `a dog`: four texts differ.
    first, *_ = probe(nothing, tmp_path, ["the dog", "the cat"]).scores
    assert (first.metric, first.value, first.chance) == ("accuracy", 0.25, 0.25)
    # `a dog` is the caption, too: three differ, and four share one of them.
    first, *_ = probe(nothing, tmp_path, ["a dog", "a cat"]).scores
    assert first.value == first.chance == pytest.approx(1 / 12)


def test_scores_are_the_means_of_their_items_which_say_what_was_chosen(tmp_path):
    outcome = probe(fond_of_images, tmp_path)
    means = item_means(outcome.items)
    assert len(means) == len(outcome.scores)
    assert means == pytest.approx(scores_with_items(outcome.scores, outcome.items))
    only_rosita = probe(lambda words, _: float("but" in words), tmp_path).items.to_pylist()
    said = {(i["prediction"], i["target"]) for i in only_rosita if i["metric"] == "accuracy"}
    assert said == {("rosita", "none")}


def test_nouns_are_poured_in_their_order_and_once(tmp_path):
    outcome = probe(nothing, tmp_path, ["a Dog sees a cat near a dog", "hat"])
    table = outcome.artifacts["texts"].to_pylist()
    assert table[4]["text"] == "a image image of dog near a cat"


def test_too_few_captions_with_nouns_are_told(tmp_path):
    with pytest.raises(TooFewRows, match="1 of 2 captions have a noun"):
        probe(nothing, tmp_path, ["a dog", ""])


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
