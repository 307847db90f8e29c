import json

import pytest

from vlbench.data.coco_files import (
    Arc,
    Named,
    Phrase,
    Thing,
    annotated_images,
    first_repeated,
    is_number,
    read_instances,
    read_text,
    sound_text,
)
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


def put(root, things=(CAT, DOG), captions=CAPTIONS, images=IMAGES, categories=CATEGORIES):
    content = {"images": images, "annotations": list(things), "categories": categories}
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
    flat, outside = DOG | {"bbox": [5, 5, 0, 9]}, CAT | {"id": 3, "bbox": [40, 5, 3, 3]}
    (image,) = read(tmp_path, things=[CAT | {"iscrowd": 1}, flat, outside])
    assert image.things == []


def test_annotations_without_iscrowd_and_with_the_text_0_are_single_things(tmp_path):
    absent = {key: value for key, value in DOG.items() if key != "iscrowd"}
    crowd = CAT | {"id": 3, "iscrowd": "1"}
    (image,) = read(tmp_path, things=[CAT | {"iscrowd": "0"}, absent, crowd])
    assert [thing.category for thing in image.things] == ["dog", "cat"]


def test_outlines_are_not_kept(tmp_path):
    instances = read_instances(put(tmp_path)[0])
    assert [set(thing) for thing in instances.things[139]] == [set(CAT) - {"segmentation"}] * 2
    assert instances.categories == {18: "dog", 17: "cat"}


FRACTIONS = [CAT | {"bbox": [0.1, 0, 0.5, 1]}, DOG | {"bbox": [0, 0, 0.5, 0.5]}]
SIDES = [[1, 2, float("nan"), 4], [1, 2, float("inf"), 4], [1, 2, -3, 4], [5, 5, 3, -0.5], []]
NO_CAT = [
    ({"iscrowd": "no"}, "iscrowd is 'no', not 0 or 1"),
    ({"iscrowd": None}, "iscrowd is None, not 0 or 1"),
    ({"category_id": 17.5}, "17.5 is not an id"),
    ({"category_id": 3}, "KeyError: 3"),
    *(({"bbox": box}, "ValueError: the box .* is not valid") for box in SIDES),
]
NOT_COCO = "is not COCO's, or not whole"
REFUSED = [
    *(
        ({"things": [CAT | wrong]}, rf"instances\.json {NOT_COCO}.*annotation 2: .*{why}\)$")
        for wrong, why in NO_CAT
    ),
    ({"things": FRACTIONS}, ".*no box is larger than one pixel: multiply fractions by width"),
    ({"things": [CAT, DOG, CAT]}, r"instances\.json .*the id 2 occurs twice among its annotat"),
    ({"captions": [*CAPTIONS, CAPTIONS[0]]}, r"captions\.json .*id 9 occurs twice among its"),
    ({"images": IMAGES * 2}, r"instances\.json .*id 139 occurs twice among its images\)$"),
    ({"categories": CATEGORIES * 2}, r"instances\.json .*the id 18 occurs twice among its cat"),
    ({"images": [IMAGES[0] | {"id": 10**30}]}, r"instances\.json .* is not an id\)$"),
    ({"images": [IMAGES[0] | {"width": 0}]}, r"instances\.json .*an image side of 0 pixels\)$"),
    ({"images": [IMAGES[0] | {"file_name": None}]}, r"instances\.json .*None is not a text\)$"),
    ({"captions": [CAPTIONS[0] | {"caption": "\ud800"}]}, r"captions\.json .*UnicodeEncodeError"),
    ({"captions": ["a"]}, rf"captions\.json {NOT_COCO} \(TypeError"),
    ({"captions": []}, r"captions\.json has no caption of image 139$"),
    ({"captions": [{"id": 1}]}, rf"captions\.json {NOT_COCO} \(KeyError"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_identify_or_fit_is_named(tmp_path, content, message):
    with pytest.raises(DataError, match=rf"^{message}"):
        read(tmp_path, **content)


def test_json_that_is_nested_without_end_is_named(tmp_path):
    (tmp_path / "instances.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"^instances\.json is not .*RecursionError"):
        read_instances(tmp_path / "instances.json")


def test_annotations_are_plain_tuples_that_storage_can_name():
    assert Arc("nsubj", 1, 0)._asdict() == {"relation": "nsubj", "head": 1, "dependent": 0}
    assert Phrase(0, 2, (1,))._asdict() == {"start": 0, "stop": 2, "boxes": (1,)}
    assert Named("dog", "puppies", 4, 11) == ("dog", "puppies", 4, 11)


def test_a_text_is_read_with_any_line_ends(tmp_path):
    (tmp_path / "a.txt").write_bytes("caf\u00e9\r\n".encode())
    assert read_text(tmp_path / "a.txt") == "caf\u00e9\n"


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match=r"^a\.txt is not UTF-8: byte 3$"):
        read_text(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"^lists/a\.txt is not UTF-8"):
        read_text(tmp_path / "a.txt", "lists/a.txt")
    with pytest.raises(DataError, match=r"^b\.txt cannot be read \(No such file"):
        read_text(tmp_path / "b.txt")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0", True), ("9" * 9, True), ("9" * 10, False), ("-1", False), ("", False)],
)
def test_a_number_has_at_most_nine_digits(text, wanted):
    assert is_number(text) is wanted


def test_the_first_value_that_occurs_twice_is_found():
    assert first_repeated([3, 1, 2, 1, 3]) == 3
    assert first_repeated([3, 1]) is None


def test_a_text_that_utf8_cannot_hold_is_refused():
    assert sound_text("caf\u00e9") == "caf\u00e9"
    with pytest.raises(ValueError, match="surrogates not allowed"):
        sound_text("\ud800")
    with pytest.raises(TypeError, match="7 is not a text"):
        sound_text(7)
