from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from vlbench.data.from_rows import Rows, columns_of, said_in, split_from_rows
from vlbench.data.images import file_images
from vlbench.errors import DataError


@pytest.fixture
def pictures(tmp_path):
    for i in range(2):
        Image.new("RGB", (4, 3), (i, 0, 0)).save(tmp_path / f"{i}.png")
    return file_images(tmp_path, ["0.png", "1.png"])


def split(images, regions=None, **rows):
    return split_from_rows(Rows(images, **rows), classes=2, where="test.csv", regions=regions)


def test_images_alone_have_no_picture(pictures):
    assert set(split(pictures).columns) == {"image"}
    assert set(split(pictures, labels=[0, 1]).columns) == {"image", "label"}


def test_texts_bring_the_picture_that_scorers_of_pairs_see(pictures):
    texts = {"caption": [["a", "b"], ["c"]], "question": [["who?"], ["why?", "how?"]]}
    found = split(pictures, texts=texts, items=["one", "two"])
    assert list(found["caption"]) == ["a", "c"]
    assert list(found["captions"]) == [["a", "b"], ["c"]]
    assert list(found["question"]) == ["who?", "why?"]
    assert list(found["questions"]) == [["who?"], ["why?", "how?"]]
    assert found["picture"][1].image.size == (4, 3)
    assert found["picture"].examples().ids == ["one", "two"]


@pytest.mark.parametrize("items", [[], ["0.jpg", "1.jpg"]])
def test_regions_are_those_of_the_items_or_else_of_the_files(pictures, region_files, items):
    found = split(pictures, region_files, items=items)
    assert torch.equal(found["regions"][1].vectors, torch.full((2, 3), 1.0))
    assert found["picture"][0].regions.vectors[0, 0] == 0


@pytest.fixture
def region_files(tmp_path):
    (tmp_path / "regions").mkdir()
    for i in range(2):
        boxes = np.array([[0, 0, 2, 2], [1, 1, 3, 3]], np.float32)
        vectors = np.full((2, 3), i, np.float32)
        arrays = {"x": vectors, "boxes": boxes, "image_w": 4, "image_h": 3}
        np.savez(tmp_path / "regions" / f"{i}.npz", **arrays)
    return tmp_path / "regions"


def test_an_image_without_regions_is_named(pictures, region_files):
    with pytest.raises(DataError, match=r"has no regions of image 7 \(missing for 1 of 2 images"):
        split(pictures, region_files, items=["0", "7"])


@pytest.mark.usefixtures("pictures")
def test_a_file_that_stands_in_two_rows_has_its_own_regions_in_both(tmp_path, region_files):
    images = file_images(tmp_path, ["1.png", "1.png"])
    vectors = [one.vectors[0, 0] for one in split(images, region_files)["regions"]]
    assert vectors == [1, 1]


def test_regions_are_not_found_by_the_numbers_of_rows(pictures, region_files):
    nameless = replace(pictures, names=())
    message = r"^test\.csv: the images have no names by which their regions .* as `item`$"
    with pytest.raises(DataError, match=message):
        split(nameless, region_files)


def test_an_item_that_stands_twice_and_a_label_of_no_class_are_named(pictures):
    with pytest.raises(DataError, match=r"^test\.csv: two rows have the item 'a'"):
        split(pictures, items=["a", "a"])
    with pytest.raises(DataError, match=r"^test\.csv: label 2 is not in 0\.\.1"):
        split(pictures, labels=[0, 2])


def test_an_item_that_is_absent_is_named_with_its_row(pictures):
    with pytest.raises(DataError, match=r"^test\.csv, row 2: there is no item"):
        split(pictures, items=[7, None])


def where(row):
    return f"test.csv, row {row + 1}"


def test_an_empty_name_is_no_column():
    named = {"image": "img", "label": "", "caption": ["a", "", "b"], "item": "id", "question": [""]}
    assert columns_of(named) == {"image": ["img"], "caption": ["a", "b"], "item": ["id"]}


def test_several_columns_and_lists_are_several_texts_without_blank_ones():
    columns = {"caption": [["a", "b"], [None, ["c", " "]]], "image": [["x", "y"]]}
    assert said_in(columns, where) == {"caption": [["a"], ["b", "c"]]}


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (3, "the caption is 3, no text"),
        (["a", 3], "the caption is 3"),
        ("", ""),
        (None, ""),
        ([], ""),
    ],
)
def test_what_is_no_text_is_named_with_its_row(cell, message):
    with pytest.raises(DataError, match=f"^test.csv, row 2.* {message or 'has no caption'}"):
        said_in({"caption": [["fine", cell]]}, where)


def test_rows_of_one_image_are_one_image_with_all_captions(tmp_path):
    for i in range(8):
        Image.new("RGB", (4, 3), (i, 0, 0)).save(tmp_path / f"{i}.png")
    names = [f"{i}.png" for i in range(8)]
    alone = [[f"{i} {n}" for n in range(5)] for i in range(8)]
    for order in (range(40), sorted(range(40), key=lambda row: row % 5)):
        every = file_images(tmp_path, [names[row // 5] for row in order])
        texts = {"caption": [[f"{row // 5} {row % 5}"] for row in order]}
        found = split_from_rows(Rows(every, texts=texts), classes=0, where="test.csv")
        assert [*found["captions"]] == alone
        assert found["image"].key == file_images(tmp_path, names).key
        assert found["image"].examples().ids == names
        assert found["picture"][7].image.getpixel((0, 0)) == (7, 0, 0)
        assert found["picture"].examples().ids == names


def test_rows_of_one_item_are_one_image_if_their_images_are(pictures):
    images = replace(
        pictures,
        stored=[*pictures.stored, pictures.stored[0]],
        rows=range(3),
        names=["0.png", "1.png", "x.png"],
        digests=[*pictures.digests, pictures.digests[0]],
    )
    images = replace(images, stored=replace(pictures.stored, source=["0.png", "1.png", "0.png"]))
    texts = {"caption": [["a"], ["b"], ["c"]]}
    found = split(images, texts=texts, items=["one", "two", "one"])
    assert [*found["captions"]] == [["a", "c"], ["b"]]
    assert [*split(images, texts=texts)["captions"]] == [["a"], ["b"], ["c"]]
    with pytest.raises(DataError, match="two rows have the item 'one', and they are not of one"):
        split(images, texts=texts, items=["one", "one", "two"])


def test_rows_of_one_image_with_two_labels_are_two_examples(pictures):
    images = replace(
        pictures,
        stored=replace(pictures.stored, source=["0.png", "1.png", "0.png"]),
        rows=range(3),
        names=["0.png", "1.png", "0.png"],
        digests=[*pictures.digests, pictures.digests[0]],
    )
    texts = {"caption": [["a"], ["b"], ["c"]]}
    assert [*split(images, texts=texts, labels=[1, 0, 1])["label"]] == [1, 0]
    assert [*split(images, texts=texts, labels=[1, 0, 0])["label"]] == [1, 0, 0]


def test_rows_with_foils_are_items_of_their_own(pictures):
    images = replace(
        pictures,
        stored=replace(pictures.stored, source=["0.png", "0.png"]),
        names=["0.png", "0.png"],
        digests=[pictures.digests[0]] * 2,
    )
    texts = {"caption": [["a"], ["b"]], "foil": [["c"], ["d"]]}
    assert [*split(images, texts=texts)["foils"]] == [["c"], ["d"]]
