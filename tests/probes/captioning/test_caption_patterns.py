import pytest
import torch
from caption_fakes import (
    NO_CAPTIONER,
    Likes,
    captioned,
    constant,
    nouns_of_the_image,
    plant,
    things,
)
from item_means import item_means, scores_with_items

from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.probes.captioning.candidates import Images
from vlbench.probes.captioning.caption_patterns import caption_patterns
from vlbench.probes.captioning.nouns import NounSource

DATA = captioned()
NOUNS = NounSource(leave_out=["image"])


def probe(model, **params):
    given = {"captioner": NO_CAPTIONER, "encoders": [], "nouns": NOUNS, "metrics": ["cider"]}
    return caption_patterns(model, DATA, Engine.for_tests(), **(given | params))


def values(outcome):
    return {(s.metric, *s.at.values()): s.value for s in outcome.scores}


def one_thing(number):
    return f"a {things(number)[0]}"


def image_of_both(number):
    return "a image of a {} and a {}".format(*things(number))


@pytest.fixture(scope="module")
def liked():
    """The outcome of a model that likes nouns of the image, led to name both things."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, one_thing, image_of_both, image_of_both)
        yield probe(Likes(nouns_of_the_image), seeds=2)


def test_the_favourites_of_a_model_that_counts_nouns_please_it_more(liked):
    found = values(liked)
    assert found["prefers_reference",] == 0.5
    assert found["match_score_gain",] == 0.5
    assert found["noun_recall", "favourites"] == 1.0
    assert found["noun_recall", "ce"] == 0.5
    assert found["length_gain",] == 6.0
    assert found["nonzero_advantages",] == 0.5
    assert found["prefix_ratio", "favourites", "clip"] == 1.0
    assert found["pattern_ratio", "favourites", "own"] == 1.0
    assert found["pattern_ratio", "ce", "own"] == 0.0
    assert not any("SCST found nothing" in note for note in liked.notes)


def test_its_row_has_tables_of_captions_words_images_and_training(liked):
    assert set(liked.artifacts) == {"captions", "unigrams", "examples", "history"}
    rows = liked.artifacts["unigrams"].to_pylist()
    most = {row["captions"]: row["word"] for row in rows if row["rank"] == 1}
    assert most == {"favourites": "a", "ce": "a", "reference": "a"}
    assert liked.counts["scored_in_training"] == 20
    assert liked.counts["ties"] == 32


def test_the_items_have_the_mean_of_their_scores(liked):
    means = item_means(liked.items)
    assert means == pytest.approx(scores_with_items(liked.scores, liked.items))
    assert ("prefers_reference",) in means
    assert ("pattern_ratio", ("captions", "favourites"), ("pattern", "own")) in means


def test_under_a_constant_model_nothing_changes_and_shares_are_at_chance(monkeypatch):
    plant(monkeypatch, one_thing, one_thing)
    outcome = probe(Likes(constant))
    with_chance = [score for score in outcome.scores if score.chance is not None]
    assert {s.metric for s in with_chance} >= {"prefers_reference", "cider_gain"}
    seeing = [s for s in with_chance if not s.metric.endswith("_text_only")]
    assert all(score.value == score.chance for score in seeing)
    assert any(note.startswith("SCST found nothing") for note in outcome.notes)


def test_a_model_that_gives_no_number_is_named(monkeypatch):
    plant(monkeypatch, one_thing, one_thing)
    with pytest.raises(DataError, match=r"Likes gave the score nan to image 0\.png"):
        probe(Likes(lambda *_: float("nan")))


def test_a_model_that_gives_too_few_scores_is_refused(monkeypatch):
    class OneShort(Likes):
        def score_pairs(self, pictures, texts):
            return torch.zeros(len(texts) - 1)

    plant(monkeypatch, one_thing, one_thing)
    with pytest.raises(ValueError, match=r"score_pairs of OneShort gave \[\d+\] for"):
        probe(OneShort(constant))


@pytest.mark.parametrize(
    "text", ["", "qua quo", "a dog\nand a cat", "a ||| dog", "a\u2028dog", "dog " * 10_000]
)
def test_odd_favourites_are_scored_like_others(monkeypatch, text):
    plant(monkeypatch, one_thing, lambda _: text)
    found = values(probe(Likes(nouns_of_the_image), images=Images(first=2), seeds=1))
    assert found["length", "favourites"] == len(text.replace("|||", "").split())
    assert 0 <= found["prefers_reference",] <= 1
