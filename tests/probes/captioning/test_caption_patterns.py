from io import BytesIO

import numpy as np
import PIL.Image
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
from scipy import stats

from vlbench.capabilities import Picture
from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.probes.captioning.caption_patterns import (
    caption_patterns,
    caption_table,
    example_table,
    history_table,
    training_part,
)
from vlbench.probes.captioning.caption_sets import Images, Subjects, references_of
from vlbench.probes.captioning.captioner import Favourites
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


ENTRY = {"steps": 5.0, "sampled_score": 0.1, "greedy_score": 0.2, "share_with_advantage": 0.5}


def found(share):
    return Favourites(["a dog"], [ENTRY], share, 60)


def test_the_share_of_advantages_is_a_mean_of_seeds_with_students_interval():
    part = training_part([found(0.4), found(0.5), found(0.6)])
    (score,) = part.scores
    assert (score.value, score.n, score.draws) == (0.5, 3, [0.4, 0.5, 0.6])
    error = stats.sem([0.4, 0.5, 0.6])
    assert score.stderr == pytest.approx(error)
    assert score.ci95[1] == pytest.approx(0.5 + stats.t.ppf(0.975, 2) * error)
    assert part.counts == {"scored_in_training": 180}


def test_one_seed_has_no_interval():
    (score,) = training_part([found(0.4)]).scores
    assert (score.value, score.stderr, score.ci95, score.draws) == (0.4, None, None, [])


def test_the_history_has_a_row_for_each_seed_and_entry():
    rows = history_table([found(0.4), found(0.5)]).to_pylist()
    assert rows == [{"seed": 0, **ENTRY}, {"seed": 1, **ENTRY}]


ROWS = captioned(test=20).splits["test"]
FAVOURITES = [[f"first {i}" for i in range(20)], [f"second {i}" for i in range(20)]]
SCORES = {
    "favourites": np.array([np.arange(20) + 0.5, np.arange(20) + 0.25]),
    "ce": np.zeros((1, 20)),
    "reference": np.ones((1, 20)),
}
SUBJECTS = Subjects(ROWS, references_of(ROWS), ["before"] * 20, FAVOURITES)


def test_every_caption_stands_with_its_score():
    rows = caption_table(SUBJECTS, SCORES).to_pylist()
    assert len(rows) == 40
    assert rows[23] == {
        "id": "3.png",
        "digest": ROWS["picture"].examples().digests[3],
        "seed": 1,
        "reference": "a cup and a hat",
        "ce": "before",
        "favourites": "second 3",
        "reference_score": 1.0,
        "ce_score": 0.0,
        "favourites_score": 3.25,
    }


def test_twelve_images_are_drawn_and_stand_beside_their_captions():
    rows = example_table(SUBJECTS, SCORES, seed=0).to_pylist()
    assert len(rows) == 12
    for row in rows:
        number = int(row["id"].removesuffix(".png"))
        assert row["favourites"] == f"first {number}"
        image = PIL.Image.open(BytesIO(row["image"]))
        assert image.getpixel((0, 0)) == (0, number, 0)
    assert rows == example_table(SUBJECTS, SCORES, seed=0).to_pylist()
    assert rows != example_table(SUBJECTS, SCORES, seed=1).to_pylist()


def test_a_large_image_is_shrunk():
    large = PIL.Image.new("RGB", (1000, 500))
    pictures = value_column(range(20), "picture")
    pictures = type(pictures)("key", "picture", [Picture(large, None)] * 20, range(20))
    rows = Split({"picture": pictures, "captions": ROWS["captions"]})
    table = example_table(SUBJECTS._replace(rows=rows), SCORES, seed=0)
    assert PIL.Image.open(BytesIO(table["image"][0].as_py())).size == (192, 96)


def test_data_without_images_have_no_examples():
    pictures = type(ROWS["picture"])("key", "picture", [Picture(None, None)] * 20, range(20))
    rows = Split({"picture": pictures, "captions": ROWS["captions"]})
    assert example_table(SUBJECTS._replace(rows=rows), SCORES, seed=0) is None
