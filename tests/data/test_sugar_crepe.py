import pytest
from foil_files import put_images, put_json

from vlbench.data.sugar_crepe import COUNTS, sugar_crepe
from vlbench.errors import DataError


def item(name="1.jpg", caption="A dog sits.", foil="A cat sits."):
    return {"filename": name, "caption": caption, "negative_caption": foil}


def put(root, **files):
    """Write all seven files, of one item where no other content is given."""
    for name in COUNTS:
        put_json(root / "data" / f"{name}.json", files.get(name, {"0": item()}))
    put_images(root / "val2017", "1.jpg", "2.jpg")
    return root


def load(root):
    return sugar_crepe(root=root, images=root / "val2017")


def test_items_are_those_of_all_files_and_their_file_is_the_category(tmp_path):
    more = {"0": item("2.jpg", "A red car", "A blue car"), "1": item()}
    test = load(put(tmp_path, add_obj=more)).splits["test"]
    assert list(test["caption"])[:3] == ["A dog sits.", "A red car", "A dog sits."]
    assert list(test["foils"])[:3] == [["A cat sits."], ["A blue car"], ["A cat sits."]]
    assert list(test["category"])[:4] == ["add_att", "add_obj", "add_obj", "replace_att"]
    kinds = {name: column.kind for name, column in test.columns.items()}
    assert kinds == {
        "image": "image", "picture": "picture", "caption": "text", "foils": "value",
        "category": "value",
    }  # fmt: skip


def test_an_image_of_many_items_is_stored_once(tmp_path):
    test = load(put(tmp_path, add_obj={"0": item("2.jpg")})).splits["test"]
    assert list(test["image"].rows) == list(test["picture"].rows) == [0, 1, 0, 0, 0, 0, 0]
    assert len(test["image"].stored) == len(test["picture"].stored) == 2
    assert test["image"].examples().ids[:2] == ["1.jpg", "2.jpg"]
    assert test["picture"][1].image.tobytes() == test["image"][1].tobytes()


def test_the_files_may_be_in_the_root_itself(tmp_path):
    put(tmp_path)
    assert len(sugar_crepe(root=tmp_path / "data", images=tmp_path / "val2017").splits["test"]) == 7


def test_a_row_is_missing_where_the_published_set_has_it(tmp_path):
    data = load(put(tmp_path))
    assert data.expected == {"test": 7511}
    assert data.missing_rows() == {"test": 7504}


def test_an_item_whose_foil_is_its_caption_is_left_out_and_counted(tmp_path):
    data = load(put(tmp_path, swap_att={"0": item(foil="A dog sits."), "1": item()}))
    assert data.dropped == {"items whose foil is the caption": 1}
    assert len(data.splits["test"]) == 7


REFUSED = [
    ({"7": {"filename": "1.jpg", "caption": "A"}}, r", item '7' has no 'negative_caption'; f"),
    ({"7": item(caption=" ")}, r", item '7' does not fit \(ValueError: a text is empty\)"),
    ({"7": item(foil=3)}, r", item '7' does not fit \(TypeError: 3 is not a text\)"),
    ({"7": item(name="../1.jpg")}, r", item '7' .*'\.\./1\.jpg' is not the name of an image file"),
    ({"7": "A dog"}, r", item '7' does not fit \(TypeError"),
    ({}, r" has no item"),
    ("3", r" contains neither a list nor an object"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_what_does_not_fit_is_named_with_its_file(tmp_path, content, message):
    with pytest.raises(DataError, match=r"^swap_obj\.json" + message):
        load(put(tmp_path, swap_obj=content))


def test_an_image_that_is_absent_is_named(tmp_path):
    message = r"^9\.jpg is missing \(1 of 2 images in add_att\.json to swap_obj\.json are\)"
    with pytest.raises(DataError, match=message):
        load(put(tmp_path, add_obj={"0": item("9.jpg")}))
