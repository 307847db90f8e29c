import json
import shutil

import numpy as np
import pytest
from PIL import Image

from vlbench.data.coco import coco
from vlbench.data.coco_files import Named
from vlbench.errors import DataError

CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 17, "name": "cat"}]
IMAGES = [
    {"id": 139, "file_name": "000000000139.jpg", "width": 40, "height": 30},
    {"id": 7, "file_name": "000000000007.jpg", "width": 20, "height": 30},
]
THINGS = [
    {"id": 2, "image_id": 139, "category_id": 17, "bbox": [1, 2, 3, 4.5], "iscrowd": 0},
    {"id": 1, "image_id": 139, "category_id": 18, "bbox": [30, 20, 11, 11], "iscrowd": 0},
    {"id": 3, "image_id": 139, "category_id": 18, "bbox": [0, 0, 9, 9], "iscrowd": 1},
    {"id": 4, "image_id": 139, "category_id": 18, "bbox": [5, 5, 0, 9], "iscrowd": 0},
]
CAPTIONS = [
    {"id": 9, "image_id": 139, "caption": "A kitten and two puppies"},
    {"id": 5, "image_id": 139, "caption": "Dogs near a cat"},
    {"id": 4, "image_id": 139, "caption": "A dog"},
    {"id": 8, "image_id": 7, "caption": "Nothing is here"},
]


def put(root, *, things=THINGS, captions=CAPTIONS, names="dog, puppy\ncat, kitten\n"):
    (root / "annotations").mkdir(parents=True)
    (root / "val2017").mkdir()
    content = {"images": IMAGES, "annotations": things, "categories": CATEGORIES}
    (root / "annotations/instances_val2017.json").write_text(json.dumps(content))
    texts = {"images": IMAGES, "annotations": captions}
    (root / "annotations/captions_val2017.json").write_text(json.dumps(texts))
    (root / "coco_class_name.txt").write_text(names)
    for image in IMAGES:
        size = image["width"], image["height"]
        Image.new("RGB", size).save(root / "val2017" / image["file_name"])
    return root


def load(root, **options):
    return coco(root=root, splits=["val"], **options).splits["val"]


def test_rows_are_ordered_by_image_and_boxes_are_cut_to_it(tmp_path):
    rows = load(put(tmp_path))
    assert rows["boxes"][1].tolist() == [[30, 20, 40, 30], [1, 2, 4, 6.5]]
    assert rows["categories"][1] == ["dog", "cat"]
    assert list(rows["id"]) == [7, 139]
    assert rows["captions"][1] == ["A dog", "Dogs near a cat", "A kitten and two puppies"]
    assert [image.size for image in rows["image"]] == [(20, 30), (40, 30)]
    assert rows["picture"][0].image.size == (20, 30)


def test_crowds_and_boxes_without_area_are_counted(tmp_path):
    data = coco(root=put(tmp_path / "all"), splits=["val"])
    assert data.dropped == {"annotations of crowds, or without area": 2}
    whole = put(tmp_path / "whole", things=THINGS[:2])
    assert coco(root=whole, splits=["val"]).dropped == {}


def test_an_image_without_things_has_no_boxes(tmp_path):
    rows = load(put(tmp_path, things=THINGS[2:]))
    assert rows["boxes"][1].shape == (0, 4)
    assert rows["categories"][1] == []


def test_the_first_caption_that_names_most_is_chosen_and_may_name_nothing(tmp_path):
    rows = load(put(tmp_path))
    assert rows["caption"][1] == "Dogs near a cat"
    assert rows["named"][1] == [Named("dog", "dog", 0, 4), Named("cat", "cat", 12, 15)]
    assert rows["caption"][0] == "Nothing is here"
    assert rows["named"][0] == []


def test_fine_grained_classes_count_and_not_categories(tmp_path):
    texts = ("A dog near a cat", "A dog, a puppy and a cat", "A cat, a puppy and two dogs")
    captions = [{"id": i, "image_id": 139, "caption": text} for i, text in enumerate(texts)]
    rows = load(put(tmp_path, captions=[*captions, CAPTIONS[3]]))
    assert rows["caption"][1] == texts[1]
    assert rows["named"][1] == [Named("dog", "dog", 2, 5), Named("cat", "cat", 21, 24)]


def test_classes_are_the_categories_in_their_order(tmp_path):
    data = coco(root=put(tmp_path), splits=["val"])
    assert data.classes == ["dog", "cat"]
    assert data.missing_rows() == {"val": 4998}


def test_regions_are_found_by_the_number_of_their_image(tmp_path):
    put(tmp_path)
    shutil.rmtree(tmp_path / "val2017")
    (tmp_path / "features").mkdir()
    for name, width in (("COCO_val2014_000000000139", 40), ("7", 20), ("dog_7", 9)):
        boxes = np.array([[0, 0, 5, 5]], np.float32)
        kept = {"x": np.full((1, 3), width), "boxes": boxes, "image_w": width, "image_h": 30}
        np.savez(tmp_path / f"features/{name}.jpg.npz", **kept)
    rows = load(tmp_path, regions=tmp_path / "features")
    assert [picture.image for picture in rows["picture"]] == [None, None]
    assert [regions.vectors[0, 0].item() for regions in rows["regions"]] == [20, 40]


def test_an_image_of_another_size_than_its_list_says_is_named(tmp_path):
    Image.new("RGB", (30, 20)).save(put(tmp_path) / "val2017/000000000007.jpg")
    message = (
        r"^000000000007\.jpg is 30x20 pixels, but 20x30 in instances_val2017\.json; fetch both"
    )
    with pytest.raises(DataError, match=message):
        load(tmp_path)


def test_an_absent_image_and_a_split_that_is_none_are_named(tmp_path):
    (put(tmp_path) / "val2017/000000000007.jpg").unlink()
    with pytest.raises(DataError, match=r"^000000000007\.jpg is missing"):
        load(tmp_path)
    with pytest.raises(ValueError, match="no split 'test'; there are train, val"):
        coco(root=tmp_path, splits=["test"])


def test_the_real_sample_has_the_boxes_of_its_images(real_data):
    data = coco(root=real_data / "coco_mini")
    assert len(data.classes) == 80
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 20, "val": 56}
    # 415 and 268 annotations, of which 3 and 4 are crowds.
    assert [sum(map(len, data.splits[name]["boxes"])) for name in ("val", "train")] == [412, 264]
    for image, boxes in zip(data.splits["val"]["image"], data.splits["val"]["boxes"], strict=True):
        assert boxes.max() <= max(image.size)
