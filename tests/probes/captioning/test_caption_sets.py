import pytest
from caption_world import CAPTIONS, NO_CAPTIONER, Likes, captioned, plant, results, world

from vlbench.asking.pair_scores import PairScorer
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, TooFewRows
from vlbench.probes.captioning import caption_sets
from vlbench.probes.captioning.caption_sets import (
    CaptionPlan,
    Images,
    collect,
    find_captions,
    match_scores,
    references_of,
)
from vlbench.probes.captioning.captioner import Captioner

DATA = captioned(test=5)
ENGINE = Engine.for_tests()


def test_the_captions_of_each_seed_are_those_of_the_first_images(monkeypatch):
    plant(monkeypatch, "before {}".format, "first {}".format, "second {}".format)
    plan = CaptionPlan(NO_CAPTIONER, None, Images(first=2), 2, 0)
    subjects, trained = collect(Likes(len), DATA, ENGINE, plan)
    assert subjects.before == ["before 0", "before 1"]
    assert subjects.favourites == [["first 0", "first 1"], ["second 0", "second 1"]]
    assert [len(texts) for texts in subjects.references] == [3, 3]
    assert subjects.kinds["reference"] == [["a dog and a cat", "a cat and a owl"]]
    assert list(subjects.examples.ids) == ["0.png", "1.png"]
    assert len(trained) == 2


def test_no_seed_and_a_captioner_that_sees_through_the_model_are_refused():
    model = Likes(len)
    with pytest.raises(ValueError, match="0 seeds; favourites need one training or more"):
        collect(model, DATA, ENGINE, CaptionPlan(NO_CAPTIONER, None, Images(), 0, 0))
    with pytest.raises(CannotDo, match="would see images through the model"):
        collect(model, DATA, ENGINE, CaptionPlan(NO_CAPTIONER, model, Images(), 1, 0))


def test_an_image_without_a_reference_is_named():
    bare = captioned(test=3, own=lambda i: [] if i == 1 else ["a dog"])
    with pytest.raises(DataError, match=r"image 1.png has no reference"):
        references_of(bare.splits["test"])


def test_a_caption_of_several_kinds_is_scored_once():
    model = Likes(lambda number, words: number + len(words))
    rows = DATA.splits["test"]
    kinds = {"favourites": [["a b", "a"], ["a b", "c d e"]], "ce": [["a b", "a"]]}
    scores = match_scores(PairScorer(model, rows, ENGINE), kinds, [3, 4])
    assert scores["favourites"].tolist() == [[5, 5], [5, 7]]
    assert scores["ce"].tolist() == [[5, 5]]
    assert model.asked == 3 + 3 + 1  # all are passed again, and one alone


THREE = world([["a dog"], ["a boat"], ["a cat"]])


def test_the_first_images_of_a_split_are_read_and_one_is_too_few():
    assert len(Images().of(THREE)) == len(Images(first=9).of(THREE)) == 3
    assert list(Images(first=2).of(THREE)["captions"]) == [["a dog"], ["a boat"]]
    with pytest.raises(TooFewRows, match="1 image;"):
        Images(first=1).of(THREE)


def test_the_other_splits_stay_whole():
    alone = Images(first=2).alone(THREE)
    assert {name: len(split) for name, split in alone.splits.items()} == {"train": 1, "test": 2}


@pytest.fixture
def captioner(monkeypatch):
    """A captioner that tells what it was given."""

    def captions(data, _engine, _settings, split):
        return [f"{split}\n  {row}" for row in data.splits[split]["picture"].rows]

    monkeypatch.setattr(caption_sets, "first_captions", captions)


@pytest.mark.usefixtures("captioner")
def test_a_captioner_tells_of_the_images_that_are_read_alone():
    found = find_captions(THREE, ENGINE, Images(first=2), "captioner", None, Captioner(), None)
    assert found == ["test 0", "test 1"]


@pytest.mark.usefixtures("captioner")
def test_the_captions_of_a_file_stand_in_for_a_captioner(tmp_path):
    given = "captioner", results(tmp_path), Captioner(), None
    assert find_captions(THREE, ENGINE, Images(first=2), *given) == CAPTIONS


def test_references_are_captions_without_any_captioner():
    spaced = world([["a  dog\nhere", "a puppy"], ["a boat"], ["a cat"]])
    given = "references", None, Captioner(), None
    assert find_captions(spaced, ENGINE, Images(first=2), *given) == ["a dog here", "a boat"]


def test_references_beside_a_file_of_captions_are_refused(tmp_path):
    why = "the original captions are references, but captions.json has different references;"
    with pytest.raises(ValueError, match=why):
        find_captions(THREE, ENGINE, Images(), "references", results(tmp_path), Captioner(), None)
