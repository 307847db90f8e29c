import numpy as np
import pytest
from caption_world import (
    CAPTIONS,
    REFERENCES,
    SHOWN,
    Taste,
    length,
    nothing,
    results,
    right_nouns,
    scores_of,
    world,
)

from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.captioning.caption_sets import Images
from vlbench.probes.captioning.caption_templates import caption_templates
from vlbench.probes.captioning.noun_count import noun_count, ranked_nouns
from vlbench.probes.captioning.noun_replacement import SplitCaption, noun_replacement
from vlbench.probes.captioning.nouns import Nouns, NounSource
from vlbench.probes.captioning.templates import TEMPLATES, fill

NAMES = ("uniter", "rosita", "vilbert", "clip", "lxmert")


def templates(taste, folder, captions=CAPTIONS):
    file = results(folder, captions)
    return caption_templates(Taste(taste), world(), Engine.for_tests(), captions=file)


def grammatical(words, _shown):
    return float("a a" not in " ".join(words) and "image" not in words and "of" not in words)


def fond_of_images(words, _shown):
    return float(words.count("image"))


def test_a_scorer_of_right_nouns_takes_no_side(tmp_path):
    found = scores_of(templates(right_nouns, tmp_path))
    assert found["accuracy",] == pytest.approx(1 / 6)
    assert [found["selection_rate", name] for name in NAMES] == pytest.approx([1 / 6] * 5)
    assert [found["match_score", name] for name in ("none", *NAMES)] == [2] * 6
    assert found["accuracy_tied",] == 1


def test_a_scorer_chooses_the_texts_that_it_likes_and_ties_share(tmp_path):
    found = scores_of(templates(fond_of_images, tmp_path))
    assert found["accuracy",] == found["accuracy_gain_from_image",] == 0
    assert [found["accuracy", name] for name in NAMES] == [0.5, 0, 0.5, 0, 0.5]
    assert [found["selection_rate", name] for name in NAMES] == [0, 0.5, 0, 0.5, 0]
    assert [found["match_score", name] for name in NAMES] == [0, 2, 0, 2, 0]


def test_a_scorer_that_wants_grammar_shares_between_the_caption_and_vilbert(tmp_path):
    found = scores_of(templates(grammatical, tmp_path))
    assert (found["accuracy",], found["selection_rate", "vilbert"]) == (0.5, 0.5)


def test_texts_that_are_the_same_count_as_one_of_a_choice(tmp_path):
    # Of `the dog`, UNITER's, ViLBERT's and LXMERT's texts are `a dog`: four texts differ.
    first, *_ = templates(nothing, tmp_path, ["the dog", "the cat"]).scores
    assert (first.metric, first.value, first.chance) == ("accuracy", 0.25, 0.25)
    # `a dog` is the caption, too: three differ, and four share one of them.
    first, *_ = templates(nothing, tmp_path, ["a dog", "a cat"]).scores
    assert first.value == first.chance == pytest.approx(1 / 12)


def test_items_say_what_was_chosen(tmp_path):
    only_rosita = templates(lambda words, _: float("but" in words), tmp_path).items.to_pylist()
    of_all = [i for i in only_rosita if (i["metric"], i["at"]) == ("accuracy", "{}")]
    assert {(i["prediction"], i["target"]) for i in of_all} == {("rosita", "none")}


def test_nouns_are_poured_in_their_order_and_once(tmp_path):
    outcome = templates(nothing, tmp_path, ["a Dog sees a cat near a dog", "hat"])
    table = outcome.artifacts["texts"].to_pylist()
    assert table[4]["text"] == "a image image of dog near a cat"


# Table 7 of the paper, read by hand, and what is said of one noun.
FILLED = {
    "uniter": ("a bunch of the bananas table", "a dog"),
    "rosita": (
        "a image image that is a a bunch but a a bananas but a a table",
        "a image image that is a a dog",
    ),
    "vilbert": ("a bunch that the bananas at the table", "a dog"),
    "clip": ("a image image of bunch near a bananas near a table", "a image image of dog"),
    "lxmert": ("a bunch of a bananas of a table", "a dog"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_nouns_are_poured_into_a_template_which_ends_with_the_last(name):
    of_three, of_one = FILLED[name]
    assert fill(TEMPLATES[name], ["bunch", "bananas", "table"]) == of_three
    assert fill(TEMPLATES[name], ["dog"]) == of_one
    with pytest.raises(ValueError, match="no noun for a template"):
        fill(TEMPLATES[name], [])


K = [2, 3, 4]


def counts(taste, references=REFERENCES, k=K, **params):
    return noun_count(Taste(taste), world(references), Engine.for_tests(), k=k, **params)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_scorer_of_right_nouns_rises_with_true_nouns_alone(template):
    found = scores_of(counts(right_nouns))
    assert [found["match_score", str(k), template, "true"] for k in K] == [2, 3, 4]
    assert [found["match_score", str(k), template, "absent"] for k in K] == [2, 2, 2]
    assert [found["increase_rate", template, kind] for kind in ("true", "absent")] == [1, 0.5]
    assert found["slope", template, "true"] == pytest.approx(1)
    assert found["slope", template, "absent"] == pytest.approx(0)
    # The first reference names two nouns, its list four.
    assert found["prefers_reference",] == found["prefers_reference", template] == 0
    assert found["match_score", "reference"] == 2
    assert found["increase_rate_tied", template, "absent"] == 1


def test_a_scorer_of_length_rises_with_absent_nouns_as_well():
    found = scores_of(counts(length))
    # `a N of the N N N` grows by one word a noun, `a N of a N ...` by three.
    assert found["slope", "uniter", "absent"] == found["slope", "uniter", "true"] == 1
    assert found["slope", "lxmert", "absent"] == found["slope", "lxmert", "true"] == 3
    assert found["increase_rate_gain_from_image", "clip", "true"] == 0


def test_the_mean_over_templates_treats_an_image_as_a_cluster():
    outcome = counts(length)
    first = outcome.scores[0]
    assert (first.metric, first.at, first.n, first.chance) == ("prefers_reference", {}, 10, 0.5)
    assert outcome.counts["clusters"] == 2
    items = [i for i in outcome.items.to_pylist() if i["metric"] == "prefers_reference"]
    mean = [i for i in items if i["at"] == "{}"]
    assert len(mean) == 10
    assert {i["cluster"] for i in mean} == {"0", "1"}


def test_images_with_too_few_nouns_are_counted_and_left_out():
    one = ["a dog, a cat, a hat and a car"]
    outcome = counts(nothing, [*REFERENCES, one, ["a dog"], ["no noun at all"]])
    assert (outcome.counts["too_few_nouns"], outcome.counts["clusters"]) == (2, 3)
    with pytest.raises(TooFewRows, match="1 image with 4 nouns in the references"):
        counts(nothing, [REFERENCES[0], ["a dog"]])


def test_every_text_is_kept_with_its_score():
    outcome = counts(right_nouns)
    table = outcome.artifacts["texts"].to_pylist()
    assert len(table) == 2 * (1 + 5 * 2 * len(K))
    assert texts(outcome, "reference") == [references[0] for references in REFERENCES]
    by_score = {row["name"]: row["score"] for row in table if row["id"] == "0"}
    assert [by_score[f"clip {k} true"] for k in K] == [2, 3, 4]
    assert all(text.startswith("a image image of") for text in texts(outcome, "clip 4 absent"))


@pytest.mark.parametrize("k", [[], [3], [4, 3], [0, 2], [2, 2]])
def test_numbers_that_do_not_ascend_are_refused(k):
    with pytest.raises(ValueError, match="ascending from 1"):
        counts(nothing, k=k)


def test_the_first_images_are_read():
    references = [REFERENCES[0], REFERENCES[1], REFERENCES[0]]
    assert counts(nothing, references, images=Images(first=2)).counts["clusters"] == 2


def test_nouns_that_more_references_name_come_first_and_forms_count_once():
    nouns = Nouns(dict.fromkeys(["dog", "cat", "hat", "dogs", "cats"], "NOUN"), {})
    references = ["a cat", "cats and dogs", "a hat", "the hat and a dog", "a hat hat hat"]
    assert ranked_nouns(nouns, references) == ["hat", "cat", "dogs"]


def replaced(taste, folder, captions=CAPTIONS, references=REFERENCES, **params):
    given = Taste(taste), world(references), Engine.for_tests()
    return noun_replacement(*given, captions=results(folder, captions), **params)


def test_a_scorer_of_right_nouns_loses_them_with_the_nouns_and_keeps_them_with_the_others(tmp_path):
    found = scores_of(replaced(right_nouns, tmp_path))
    kinds = ("nouns", "others")
    assert [found["match_score", name] for name in ("none", *kinds)] == [2, 0, 2]
    assert [found["score_drop", name] for name in kinds] == [2, 0]
    assert [found["prefers_original", name] for name in kinds] == [1, 0.5]
    assert [found["prefers_original_tied", name] for name in kinds] == [0, 1]
    # No noun of a caption is in the other image.
    assert found["prefers_original_gain_from_image", "nouns"] >= 0.5
    assert found["prefers_original_gain_from_image", "others"] == 0


def test_the_row_of_a_constant_scorer_says_that_all_is_tied(tmp_path):
    outcome = replaced(nothing, tmp_path)
    assert outcome.counts["ties"] == 4
    (note,) = outcome.notes
    assert note.startswith("prefers_original: the best scores are tied in 4 of 4 choices (within")


def test_what_the_texts_alone_tell_does_not_depend_on_the_model(tmp_path):
    outcomes = [replaced(taste, tmp_path).scores for taste in (nothing, length)]
    blind = [[s.floors["text_only"] for s in of if "text_only" in s.floors] for of in outcomes]
    assert blind[0] == blind[1]
    assert len(blind[0]) == 2


PROBES = (templates, lambda taste, _: counts(taste), replaced)


@pytest.mark.parametrize("probe", PROBES)
def test_who_sees_no_image_gains_nothing_from_it(probe, tmp_path):
    gains = [s for s in probe(length, tmp_path).scores if s.metric.endswith("_gain_from_image")]
    assert len(gains) > 1
    # Two images, that never vary: others may gain up to 1 - .05^(1/2).
    unseen = 1 - 0.05**0.5
    assert {(s.value, s.chance, s.ci95) for s in gains} == {(0.0, 0.0, (-unseen, unseen))}


def texts(outcome, name):
    return [row["text"] for row in outcome.artifacts["texts"].to_pylist() if row["name"] == name]


def test_positions_and_punctuation_stay_and_no_wrong_noun_is_in_a_reference(tmp_path):
    outcome = replaced(nothing, tmp_path)
    original, nouns, others = (texts(outcome, n) for n in ("original", "nouns", "others"))
    assert original == CAPTIONS
    assert nouns[0].startswith("a ")
    assert nouns[0].endswith(".")
    assert nouns[0].split()[2:5] == ["near", "a", "big"]
    assert not set(nouns[0].rstrip(".").split()) & set(SHOWN[0])
    kept = others[1].split()
    assert (kept[1], kept[4], kept[5]) == ("boat", "cup", ".")
    assert all(a != b for a, b in zip(kept, CAPTIONS[1].split(), strict=True) if b in "the sees a")


def test_captions_without_nouns_or_without_other_words_are_counted_and_left_out(tmp_path):
    captions = [*CAPTIONS, "", "near a unicorn", "dog", "dog cat ."]
    references = [REFERENCES[0]] * len(captions)
    outcome = replaced(nothing, tmp_path, captions, references)
    assert outcome.scores[0].n == 2
    assert outcome.counts["without_nouns"] == 2
    assert outcome.counts["without_other_words"] == 2


def test_a_long_caption_and_one_with_ends_of_line_are_taken(tmp_path):
    captions = ["a dog " * 5000, "a cat\u2028near\n the  dog"]
    outcome = replaced(right_nouns, tmp_path, captions, [REFERENCES[0]] * 2)
    assert texts(outcome, "original")[1] == "a cat near the dog"
    assert texts(outcome, "nouns")[0].split()[::2] == ["a"] * 5000


EVERY = [["a boat car cat cup dog fish hat owl rose tree"]] * 2
FEW = [
    (templates, [["a dog", ""]], "1 of 2 captions have a noun"),
    (replaced, [["a dog", "near"]], "1 of 2 captions have a noun and another word"),
    (replaced, [CAPTIONS, EVERY], "10 nouns, too few to draw 2 nouns that an image does not show"),
]


@pytest.mark.parametrize(("probe", "given", "message"), FEW)
def test_too_few_captions_with_nouns_or_nouns_to_replace_are_told(probe, given, message, tmp_path):
    with pytest.raises(TooFewRows, match=message):
        probe(nothing, tmp_path, *given)


def test_the_seed_draws_the_words(tmp_path):
    found = [texts(replaced(nothing, tmp_path, seed=s), "others") for s in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize("probe", [caption_templates, noun_replacement])
def test_the_originals_may_be_first_references(probe):
    outcome = probe(Taste(right_nouns), world(), Engine.for_tests(), originals="references")
    first = outcome.artifacts["texts"].to_pylist()[0]
    assert first["text"] == REFERENCES[0][0]
    assert first["score"] == 2


def test_nouns_that_are_left_out_are_replaced_as_other_words(tmp_path):
    outcome = replaced(nothing, tmp_path, nouns=NounSource(leave_out=["cat", "cup"]))
    assert texts(outcome, "nouns")[0].endswith("a big cat.")
    assert not texts(outcome, "others")[0].endswith("cat.")


def test_of_several_wrong_nouns_those_are_asked_that_a_trigram_model_cannot_tell(tmp_path):
    every = [caption for _ in range(10) for caption in CAPTIONS]
    given = every, REFERENCES * 10
    found = [replaced(nothing, tmp_path, *given, candidates=n).scores for n in (1, 20)]
    of_nouns = [next(s for s in of if s.at == {"replaced": "nouns"}) for of in found]
    assert of_nouns[1].floors["text_only"] == 0.5
    # A draw alone is the first of several, and other words are the same.
    others = [texts(replaced(nothing, tmp_path, candidates=n), "others") for n in (1, 20)]
    assert others[0] == others[1]


TAGS = {"dog": "NOUN", "dogs": "NOUN", "cat": "NOUN", "hat": "NOUN", "a": "X", "of": "X"}
TOLD = Nouns(TAGS, dict.fromkeys(TAGS, 9))


def caption(text, told=TOLD):
    return SplitCaption.of(text, *told.of_each([text]))


def rng():
    return np.random.default_rng(0)


def test_a_caption_is_nouns_and_other_words_and_punctuation_is_neither():
    one = caption("A dog, -- of (cats) .")
    assert one.nouns == {1: "dog"}
    assert one.others == {0: "a", 3: "of", 4: "cats"}


def test_the_same_noun_is_replaced_by_the_same_one_and_keeps_its_punctuation():
    twin = caption('"Dog" a dog!').with_wrong_nouns(TOLD, ["cat"], rng())
    assert twin == '"hat" a hat!'
    # A form of a noun that is shown is not wrong.
    drawn = {caption("a cat").with_wrong_nouns(TOLD, ["dogs"], rng()) for _ in range(9)}
    assert drawn == {"a hat"}


def test_another_word_is_never_the_same_and_a_letter_that_grows_in_lower_case_is_replaced_whole():
    assert caption("a of. Dog").with_other_words(TOLD, rng()) == "of a. Dog"
    assert caption("(\u0130t's-a), dog").with_other_words(TOLD, rng()) in {"(a), dog", "(of), dog"}


def test_nouns_without_another_and_words_without_another_are_told():
    with pytest.raises(TooFewRows, match="too few to draw 1 nouns that an image does not show"):
        caption("a cat").with_wrong_nouns(TOLD, ["dogs", "hat"], rng())
    alone = Nouns({"a": "X", "dog": "NOUN"}, {"a": 9, "dog": 9})
    with pytest.raises(TooFewRows, match="no word to replace 'a'"):
        caption("a dog", alone).with_other_words(alone, rng())
