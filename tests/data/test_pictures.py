import numpy as np
import pytest
import torch

from vlbench.data.images import array_images
from vlbench.data.pictures import (
    apart_from_regions,
    only_in_pictures,
    pictures,
    require_own_regions,
)
from vlbench.data.records import Data, Split, value_column
from vlbench.data.regions import region_features
from vlbench.errors import DataError

IMAGES = array_images(np.zeros((2, 30, 40, 3), np.uint8))
NAMES = ["42.jpg", "7.jpg"]


@pytest.fixture
def features(tmp_path):
    for name, value in (("42", 1.0), ("7", 2.0)):
        boxes = np.array([[0, 0, 5, 5]], np.float32)
        size = {"image_w": 40, "image_h": 30}
        np.savez(tmp_path / f"{name}.npz", x=np.full((1, 3), value), boxes=boxes, **size)
    return region_features(tmp_path)


def test_a_picture_has_the_image_and_the_regions_of_its_name(features):
    columns = pictures(IMAGES, NAMES, features)
    assert list(columns) == ["image", "regions", "picture"]
    assert [len(column) for column in columns.values()] == [2, 2, 2]
    picture = columns["picture"][1]
    assert picture.image.size == (40, 30)
    assert torch.equal(picture.regions.vectors, torch.full((1, 3), 2.0))


def test_a_picture_may_lack_its_image_or_its_regions(features):
    assert pictures(None, NAMES, features)["picture"][0].image is None
    only_images = pictures(IMAGES, NAMES, None)
    assert list(only_images) == ["image", "picture"]
    assert only_images["picture"][0].regions is None


def test_a_picture_is_known_by_its_image_and_its_regions(features):
    kinds = [(IMAGES, features), (IMAGES, None), (None, features)]
    assert len({pictures(images, NAMES, found)["picture"].key for images, found in kinds}) == 3


def test_images_without_regions_are_counted(features):
    with pytest.raises(DataError, match=r"has no regions of image 8 \(missing for 1 of 2 images\)"):
        pictures(IMAGES, ["42", "8"], features)


def test_two_images_of_one_name_are_refused_and_both_are_named(features):
    others = array_images(np.stack([np.full((30, 40, 3), i, np.uint8) for i in range(2)]))
    message = r"the images a/7\.jpg and 7\.png would both have the regions of 7; give each"
    with pytest.raises(DataError, match=message):
        pictures(others, ["a/7.jpg", "7.png"], features)
    with pytest.raises(DataError, match=message):
        pictures(None, ["a/7.jpg", "7.png"], features)


def test_rows_of_one_image_share_its_regions(features):
    regions = pictures(IMAGES, ["a/7.jpg", "a/7.jpg"], features)["regions"]
    assert [one.vectors[0, 0].item() for one in regions] == [2, 2]


def test_images_of_two_splits_share_a_name_only_where_they_are_one(features):
    def split(pixel):
        images = array_images(np.full((2, 30, 40, 3), pixel, np.uint8))
        return Split(pictures(images, NAMES, features))

    require_own_regions({"train": split(0), "test": split(0), "bare": Split({"image": IMAGES})})
    message = r"the images 42\.jpg of train and 42\.jpg of test would both have the regions of 42"
    with pytest.raises(DataError, match=message):
        require_own_regions({"train": split(0), "test": split(1)})


def test_regions_are_of_an_image_of_their_size(features):
    small = array_images(np.zeros((2, 12, 16, 3), np.uint8))
    columns = pictures(small, NAMES, features)
    for name in ("regions", "picture"):
        with pytest.raises(DataError, match=r"is for an image of \(40, 30\), .* is \(16, 12\)"):
            columns[name][0]


def test_an_image_that_has_a_number_goes_by_it_and_not_by_its_name(features):
    columns = pictures(IMAGES, ["a.jpg", "b.jpg"], features, numbers=[7, 42])
    assert [one.vectors[0, 0].item() for one in columns["regions"]] == [2, 1]


def data(features, images=IMAGES, names=NAMES):
    captions = value_column([["a dog"], ["a cat"]])
    return Data(splits={"test": Split({**pictures(images, names, features), "captions": captions})})


def test_regions_of_their_own_are_in_pictures_alone(features):
    found = only_in_pictures(data(features)).splits["test"]
    assert set(found.columns) == {"image", "picture", "captions"}
    assert found["picture"][1].regions is not None
    assert found["picture"].key == data(features).splits["test"]["picture"].key


def test_regions_that_pictures_do_not_read_from_files_stay():
    split = Split({"regions": value_column([1, 2]), "captions": value_column([3, 4])})
    theirs = Data(splits={"test": split})
    assert only_in_pictures(theirs).digest() == theirs.digest()
    assert apart_from_regions(theirs).digest() == theirs.digest()


def test_apart_from_their_regions_data_differ_by_images_names_and_columns(features):
    def key(found):
        return apart_from_regions(found).digest()

    others = array_images(np.ones((2, 30, 40, 3), np.uint8))
    assert key(data(features)) == key(data(None))
    assert key(data(features)) != key(data(features, others))
    assert key(data(features, None)) != key(data(features))
    assert key(data(features, None)) != key(data(features, None, ["7.jpg", "42.jpg"]))
    assert key(data(features).limited(1)) != key(data(features))
    changed = Split(data(None).splits["test"].columns | {"captions": value_column(["b", "c"])})
    assert key(Data(splits={"test": changed})) != key(data(features))
