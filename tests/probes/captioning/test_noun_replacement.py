import numpy as np
import pytest
import torch
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
from item_means import item_means, scores_with_items

from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows
from vlbench.probes.captioning.noun_replacement import Caption, noun_replacement
from vlbench.probes.captioning.nouns import Nouns, NounSource


def probe(taste, folder, captions=CAPTIONS, references=REFERENCES, **params):
    model = Taste(taste) if callable(taste) else taste
    file = results(folder, captions)
    return noun_replacement(model, world(references), Engine.for_tests(), captions=file, **params)


def test_a_scorer_of_right_nouns_loses_them_with_the_nouns_and_keeps_them_with_the_others(tmp_path):
    found = scores_of(probe(right_nouns, tmp_path))
    assert found["match_score", "none"] == 2
    assert (found["match_score", "nouns"], found["match_score", "others"]) == (0, 2)
    assert (found["score_drop", "nouns"], found["score_drop", "others"]) == (2, 0)
    assert (found["prefers_original", "nouns"], found["prefers_original", "others"]) == (1, 0.5)
    assert (found["prefers_original_tied", "nouns"], found["prefers_original_tied", "others"]) == (
        0,
        1,
    )
    # No noun of a caption is in the other image.
    assert found["prefers_original_another_image", "nouns"] <= 0.5


def test_a_constant_scorer_has_chance_everywhere_and_the_row_says_that_all_is_tied(tmp_path):
    outcome = probe(nothing, tmp_path)
    judged = [s for s in outcome.scores if s.chance is not None and "text_only" not in s.metric]
    assert [s.value for s in judged] == [s.chance for s in judged]
    assert outcome.counts["ties"] == 4
    (note,) = outcome.notes
    assert note.startswith("prefers_original: the best scores are tied in 4 of 4 choices (within")


def test_what_the_texts_alone_tell_does_not_depend_on_the_model(tmp_path):
    outcomes = [scores_of(probe(taste, tmp_path)) for taste in (nothing, length)]
    blind = [{k: v for k, v in found.items() if k[0].endswith("_text_only")} for found in outcomes]
    assert blind[0] == blind[1]
    assert len(blind[0]) == 2


def test_scores_are_the_means_of_their_items(tmp_path):
    outcome = probe(length, tmp_path)
    means = item_means(outcome.items)
    assert len(means) == len(outcome.scores)
    assert means == pytest.approx(scores_with_items(outcome.scores, outcome.items))


def texts(outcome, name):
    return [row["text"] for row in outcome.artifacts["texts"].to_pylist() if row["name"] == name]


def test_positions_and_punctuation_stay_and_no_wrong_noun_is_in_a_reference(tmp_path):
    outcome = probe(nothing, tmp_path)
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
    outcome = probe(nothing, tmp_path, captions, references)
    assert outcome.scores[0].n == 2
    assert outcome.counts["without_nouns"] == 2
    assert outcome.counts["without_other_words"] == 2


def test_a_long_caption_and_one_with_ends_of_line_are_taken(tmp_path):
    captions = ["a dog " * 5000, "a cat\u2028near\n the  dog"]
    outcome = probe(right_nouns, tmp_path, captions, [REFERENCES[0]] * 2)
    assert texts(outcome, "original")[1] == "a cat near the dog"
    assert texts(outcome, "nouns")[0].split()[::2] == ["a"] * 5000


def test_too_few_captions_with_nouns_are_told(tmp_path):
    with pytest.raises(TooFewRows, match="1 of 2 captions have a noun and another word"):
        probe(nothing, tmp_path, ["a dog", "near"])


def test_nouns_that_are_too_few_to_be_replaced_are_told(tmp_path):
    every = [["a boat car cat cup dog fish hat owl rose tree"]] * 2
    with pytest.raises(TooFewRows, match="10 nouns, too few to draw 2 that an image does not show"):
        probe(nothing, tmp_path, references=every)


def test_the_seed_draws_the_words(tmp_path):
    found = [texts(probe(nothing, tmp_path, seed=s), "others") for s in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_nouns_that_are_left_out_are_replaced_as_other_words(tmp_path):
    outcome = probe(nothing, tmp_path, nouns=NounSource(leave_out=["cat", "cup"]))
    assert texts(outcome, "nouns")[0].endswith("a big cat.")
    assert not texts(outcome, "others")[0].endswith("cat.")


class Answers:
    def __init__(self, answer):
        self.answer = answer

    def score_pairs(self, pictures, texts):
        return self.answer(len(texts))


def test_a_score_that_is_no_number_is_named(tmp_path):
    with pytest.raises(DataError, match="Answers gave the score nan to image 0"):
        probe(Answers(lambda n: torch.full((n,), float("nan"))), tmp_path)


def test_another_number_of_scores_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"score_pairs of Answers gave \[1\]"):
        probe(Answers(lambda _: torch.ones(1)), tmp_path)


TAGS = {"dog": "NOUN", "dogs": "NOUN", "cat": "NOUN", "hat": "NOUN", "a": "X", "of": "X"}
TOLD = Nouns(TAGS, dict.fromkeys(TAGS, 9))


def caption(text, told=TOLD):
    return Caption.of(text, told.of(text))


def rng():
    return np.random.default_rng(0)


def test_a_caption_is_nouns_and_other_words_and_punctuation_is_neither():
    one = caption("A dog, -- of (cats) .")
    assert one.nouns == {1: "dog"}
    assert one.others == {0: "a", 3: "of", 4: "cats"}


def test_the_same_noun_is_replaced_by_the_same_one_and_keeps_its_punctuation():
    twin = caption('"Dog" a dog!').with_wrong_nouns(TOLD, ["cat"], rng())
    assert twin == '"hat" a hat!'


def test_a_letter_that_grows_in_lower_case_is_replaced_whole():
    assert caption("(\u0130t's-a), dog").with_other_words(TOLD, rng()) in {"(a), dog", "(of), dog"}


def test_a_form_of_a_noun_that_is_shown_is_not_wrong():
    drawn = {caption("a cat").with_wrong_nouns(TOLD, ["dogs"], rng()) for _ in range(9)}
    assert drawn == {"a hat"}


def test_nouns_without_another_and_words_without_another_are_told():
    with pytest.raises(TooFewRows, match="too few to draw 1 that an image does not show"):
        caption("a cat").with_wrong_nouns(TOLD, ["dogs", "hat"], rng())
    alone = Nouns({"a": "X", "dog": "NOUN"}, {"a": 9, "dog": 9})
    with pytest.raises(TooFewRows, match="no word to draw in place of 'a'"):
        caption("a dog", alone).with_other_words(alone, rng())


def test_another_word_is_never_the_same():
    assert caption("a of. Dog").with_other_words(TOLD, rng()) == "of a. Dog"
