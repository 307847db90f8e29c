import pytest
from foil_files import put_images, put_json
from PIL import Image

from vlbench.data.aro import visual_genome_attribution, visual_genome_relation
from vlbench.errors import DataError

RELATION, ATTRIBUTION = "visual_genome_relation.json", "visual_genome_attribution.json"


def item(box=(0, 0, 4, 3), name="7.jpg", relation="on", **others):
    own = {
        "image_path": name, "relation_name": relation, "true_caption": "the cup is on the table",
        "false_caption": "the table is on the cup",
    }  # fmt: skip
    return own | dict(zip(("bbox_x", "bbox_y", "bbox_w", "bbox_h"), box, strict=True)) | others


def put(root, *items, name=RELATION):
    put_json(root / name, list(items))
    put_images(root / "images", "7.jpg", "8.jpg")
    return root


def put_gradient(root):
    """Write a lossless image whose pixel at x, y is (x, y, 0)."""
    image = Image.new("RGB", (8, 6))
    for x in range(8):
        for y in range(6):
            image.putpixel((x, y), (x, y, 0))
    image.save(put_images(root / "images") / "9.png")


def test_a_relation_is_the_category_and_the_file_is_the_cluster(tmp_path):
    data = visual_genome_relation(root=put(tmp_path, item(), item(name="8.jpg", relation="near")))
    test = data.splits["test"]
    assert list(test["caption"]) == ["the cup is on the table"] * 2
    assert list(test["foils"]) == [["the table is on the cup"]] * 2
    assert list(test["category"]) == ["on", "near"]
    assert list(test["cluster"]) == ["7.jpg", "8.jpg"]
    assert data.expected == {"test": 23_937}


def test_two_attributes_are_the_category(tmp_path):
    put(tmp_path, item(attributes=["red", "open"]), name=ATTRIBUTION)
    data = visual_genome_attribution(root=tmp_path)
    assert list(data.splits["test"]["category"]) == ["red_open"]
    assert data.expected == {"test": 28_748}


def test_an_image_is_the_part_under_the_box(tmp_path):
    put(tmp_path, item((2, 1, 3, 4), "9.png"))
    put_gradient(tmp_path)
    image = visual_genome_relation(root=tmp_path).splits["test"]["image"]
    assert image[0].size == image.stored.size(0) == (3, 4)
    assert image[0].getpixel((0, 0)) == (2, 1, 0)
    assert image[0].getpixel((2, 3)) == (4, 4, 0)


def test_a_box_that_leaves_the_image_is_black_outside(tmp_path):
    put(tmp_path, item((6, 1, 4, 2), "9.png"))
    put_gradient(tmp_path)
    image = visual_genome_relation(root=tmp_path).splits["test"]["image"][0]
    assert [image.getpixel((x, 0)) for x in range(4)] == [(6, 1, 0), (7, 1, 0), (0,) * 3, (0,) * 3]


def test_fractions_of_pixels_are_rounded(tmp_path):
    items = item((0.6, 1.4, 2.0, 3.0)), item((1, 1, 2, 3))
    image = visual_genome_relation(root=put(tmp_path, *items)).splits["test"]["image"]
    assert list(image.rows) == [0, 0]


def test_a_part_is_stored_once_and_another_box_is_another_image(tmp_path):
    items = item(), item((1, 0, 4, 3)), item(), item(name="8.jpg")
    test = visual_genome_relation(root=put(tmp_path, *items)).splits["test"]
    assert list(test["image"].rows) == list(test["picture"].rows) == [0, 1, 0, 2]
    assert len(set(test["image"].digests)) == len(test["image"].stored) == 3
    assert test["picture"].examples().ids[1] == "7.jpg 1,0,5,3"
    assert test["picture"][1].image.size == (4, 3)


def test_the_key_of_parts_is_that_of_their_files_and_boxes(tmp_path):
    first = visual_genome_relation(root=put(tmp_path, item())).splits["test"]["image"]
    put_images(tmp_path / "images", "8.jpg", "7.jpg")
    other = visual_genome_relation(root=tmp_path).splits["test"]["image"]
    assert (first.names, first.digests) == (other.names, other.digests)
    assert first.key != other.key


REFUSED = [
    ({"image_path": "7.jpg"}, r"has no 'bbox_x'"),
    (item(("0", 0, 4, 3)), r"the box \['0', 0, 4, 3\] is not a box"),
    (item((0, 0, True, 3)), r"is not a box"),
    (item((0, 0, float("nan"), 3)), r"is not a box"),
    (item((0, 0, 0, 3)), r"\[0, 0, 0, 3\] has no area"),
    (item((0, 0, 10**6, 10**6)), r"has no area or is too large"),
    (item(relation=""), r"a text is empty"),
    (item(true_caption=None), r"None is not a text"),
    (item(name="images/7.jpg"), r"'images/7\.jpg' is not the name of an image file"),
]


@pytest.mark.parametrize(("entry", "message"), REFUSED)
def test_an_item_that_does_not_fit_is_named_with_its_file(tmp_path, entry, message):
    with pytest.raises(DataError, match=r"^visual_genome_relation\.json, item 1 .*" + message):
        visual_genome_relation(root=put(tmp_path, item(), entry))


@pytest.mark.parametrize("attributes", [["red"], "ab", ["red", "open", "tall"]])
def test_other_than_two_attributes_are_named(tmp_path, attributes):
    put(tmp_path, item(attributes=attributes), name=ATTRIBUTION)
    with pytest.raises(DataError, match=r"^visual_genome_attribution\.json, item 0 .* must be two"):
        visual_genome_attribution(root=tmp_path)


def test_a_box_outside_its_image_is_named_when_the_image_is_read(tmp_path):
    image = visual_genome_relation(root=put(tmp_path, item((8, 0, 4, 3)))).splits["test"]["image"]
    with pytest.raises(DataError, match=r"^7\.jpg: the box .8, 0, 12, 3. is outside its 8x6 pix"):
        image[0]
