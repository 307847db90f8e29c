import numpy as np
import pytest
import torch

from vlbench.data.images import array_images
from vlbench.data.pictures import pictures
from vlbench.data.regions import region_features
from vlbench.errors import DataError

IMAGES = array_images(np.zeros((2, 30, 40, 3), np.uint8))
NAMES = ["000042.jpg", "7.jpg"]


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
    keys = {pictures(images, NAMES, found)["picture"].key for images, found in kinds}
    assert len(keys) == 3


def test_images_without_regions_are_counted(features):
    with pytest.raises(DataError, match=r"has no regions of image 8 \(missing for 1 of 2 images\)"):
        pictures(IMAGES, ["42", "8"], features)
