import pytest
from caption_world import CAPTIONS, results, world

from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.captioning import candidates
from vlbench.probes.captioning.candidates import CaptionSource, Images
from vlbench.probes.captioning.captioner import Captioner

ENGINE = Engine.for_tests()
THREE = world([["a dog"], ["a boat"], ["a cat"]])


def test_the_first_images_of_a_split_are_read():
    assert len(Images().of(THREE)) == 3
    assert list(Images(first=2).of(THREE)["captions"]) == [["a dog"], ["a boat"]]
    assert len(Images(first=9).of(THREE)) == 3


def test_one_image_is_too_few():
    with pytest.raises(TooFewRows, match="1 image;"):
        Images(first=1).of(THREE)


def test_the_other_splits_stay_whole():
    alone = Images(first=2).alone(THREE)
    assert {name: len(split) for name, split in alone.splits.items()} == {"train": 1, "test": 2}


@pytest.fixture
def captioner(monkeypatch):
    """A captioner that tells what it was given."""

    def captions(data, _engine, encoders, _settings, split):
        return [f"{split}\n {len(encoders)}  {row}" for row in data.splits[split]["picture"].rows]

    monkeypatch.setattr(candidates, "first_captions", captions)


@pytest.mark.usefixtures("captioner")
def test_a_captioner_tells_of_the_images_that_are_read_alone():
    found = CaptionSource(None, Captioner(), [object()]).of(THREE, Images(first=2), ENGINE)
    assert found == ["test 1 0", "test 1 1"]


@pytest.mark.usefixtures("captioner")
def test_the_captions_of_a_file_stand_in_for_a_captioner(tmp_path):
    source = CaptionSource(results(tmp_path), Captioner(), [])
    assert source.of(THREE, Images(first=2), ENGINE) == CAPTIONS
