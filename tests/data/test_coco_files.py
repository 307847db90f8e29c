import json

import pytest

from vlbench.data.coco_files import Thing, annotated_images, read_instances
from vlbench.errors import DataError

IMAGES = [{"id": 139, "file_name": "139.jpg", "width": 40, "height": 30}]
CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 17, "name": "cat"}]
CAT = {
    "id": 2,
    "image_id": 139,
    "category_id": 17,
    "bbox": [1, 2, 3, 4.5],
    "iscrowd": 0,
    "segmentation": [[1, 2, 3]],
}
DOG = CAT | {"id": 1, "category_id": 18, "bbox": [30, 20, 11, 11]}
CAPTIONS = [{"id": 9, "image_id": 139, "caption": "b"}, {"id": 5, "image_id": 139, "caption": "a"}]


def put(root, things=(CAT, DOG), captions=CAPTIONS):
    content = {"images": IMAGES, "annotations": list(things), "categories": CATEGORIES}
    (root / "instances.json").write_text(json.dumps(content))
    (root / "captions.json").write_text(json.dumps({"annotations": captions}))
    return root / "instances.json", root / "captions.json"


def read(root, **content):
    instances, captions = put(root, **content)
    return list(annotated_images(read_instances(instances), captions))


def test_things_and_captions_are_ordered_by_their_annotation(tmp_path):
    (image,) = read(tmp_path)
    assert (image.number, image.file, image.size) == (139, "139.jpg", [40, 30])
    assert image.captions == ["a", "b"]
    assert image.things == [Thing([30, 20, 40, 30], "dog"), Thing([1, 2, 4, 6.5], "cat")]


def test_crowds_and_boxes_without_area_are_left_out(tmp_path):
    outside = CAT | {"bbox": [40, 5, 3, 3]}
    (image,) = read(tmp_path, things=[CAT | {"iscrowd": 1}, CAT | {"bbox": [5, 5, 0, 9]}, outside])
    assert image.things == []


def test_outlines_are_not_kept(tmp_path):
    instances = read_instances(put(tmp_path)[0])
    assert [set(thing) for thing in instances.things[139]] == [set(CAT) - {"segmentation"}] * 2
    assert instances.categories == {18: "dog", 17: "cat"}


def test_a_file_that_is_not_whole_and_an_image_without_captions_are_named(tmp_path):
    with pytest.raises(DataError, match=r"^captions\.json has no caption of image 139$"):
        read(tmp_path, captions=[])
    with pytest.raises(DataError, match=r"^captions\.json is not COCO's, or not whole \(KeyError"):
        read(tmp_path, captions=[{"id": 1}])
    with pytest.raises(DataError, match=r"^instances\.json is not COCO's, or not whole \(KeyError"):
        read(tmp_path, things=[CAT | {"category_id": 3}])
