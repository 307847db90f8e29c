import json

import pytest

from vlbench.data.caption_results import result_captions
from vlbench.data.records import Column, Split, value_column
from vlbench.errors import DataError

ROWS = Split({"id": value_column([139, 7])})


def put(folder, content):
    file = folder / "captions.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def entry(image, caption="a dog"):
    return {"image_id": image, "caption": caption}


def test_captions_come_in_the_order_of_the_rows(tmp_path):
    file = put(tmp_path, [entry(7, "a\u2028cat \n sits"), {**entry(139), "more": 1}])
    assert result_captions(file, ROWS) == ["a dog", "a cat sits"]


def test_images_without_ids_have_the_numbers_of_their_rows(tmp_path):
    stored = Column("k", "picture", ["x", "y", "z"], [2, 1])
    file = put(tmp_path, [entry(1, "one"), entry(2, "two"), entry("0", "none")])
    assert result_captions(file, Split({"picture": stored})) == ["two", "one"]


def test_images_that_have_names_go_by_them_and_not_by_their_rows(tmp_path):
    stored = Column("k", "picture", ["x", "y"], [1, 0, 1], names=["a/1.jpg", "0.jpg"])
    file = put(tmp_path, [entry(0, "named 0"), entry("1.jpg", "named 1")])
    said = ["named 0", "named 1", "named 0"]
    assert result_captions(file, Split({"picture": stored})) == said


def test_two_images_of_one_name_have_no_captions_by_it(tmp_path):
    stored = Column("k", "picture", ["x", "y"], [0, 1], names=["a/1.jpg", "b/1.jpg"])
    with pytest.raises(DataError, match=r"the images a/1\.jpg and b/1\.jpg share the name 1; give"):
        result_captions(put(tmp_path, [entry(1)]), Split({"picture": stored}))


@pytest.mark.parametrize("again", ["1", "a/1.jpg"])
def test_two_captions_of_one_named_image_are_an_error(tmp_path, again):
    stored = Column("k", "picture", ["x"], [0], names=["a/1.jpg"])
    file = put(tmp_path, [entry(1, "one"), entry(again, "two")])
    with pytest.raises(DataError, match="has two captions of image 1; keep one"):
        result_captions(file, Split({"picture": stored}))


def test_images_that_a_limit_leaves_out_may_have_captions(tmp_path):
    file = put(tmp_path, [entry(7, "seven"), entry(139)])
    assert result_captions(file, ROWS.select([1])) == ["seven"]


REFUSED = [
    ([entry(7), entry(139), entry(7, "b")], r"has two captions of image 7; keep one"),
    ([entry(7), entry(139), entry("7")], r"has two captions of image 7; keep one"),
    (
        [entry(7), entry(139), entry(8)],
        r"a caption of image 8, which the data set does not contain",
    ),
    ([entry(7)], r"has no caption of 1 of 2 images, 139 first"),
    ("[" * 100_000, r"is not JSON \("),
    ({"7": "a dog"}, r"is not a list; it must be"),
    ([entry(7), "a dog"], r", entry 1: wanted \{"),
    ([entry(True)], r", entry 0: wanted"),
    ([entry(7.0)], r", entry 0: wanted"),
    ([entry(7, None)], r", entry 0: wanted"),
    ([entry(7, "\ud800")], r", entry 0: wanted"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_a_file_that_is_no_result_is_one_clear_error(tmp_path, content, message):
    with pytest.raises(DataError, match=r"^captions\.json" + "[ ]?.*" + message):
        result_captions(put(tmp_path, content), ROWS)
