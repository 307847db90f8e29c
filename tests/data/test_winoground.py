import json

import pytest
from foil_files import put_images, put_json

from vlbench.data.winoground import winoground
from vlbench.errors import DataError


def item(number=0, **others):
    own = {
        "id": number, "image_0": f"ex_{number}_img_0", "image_1": f"ex_{number}_img_1",
        "caption_0": "a plant in a pot", "caption_1": "a pot in a plant", "tag": "Noun",
        "secondary_tag": "", "num_main_preds": 1, "collapsed_tag": "Object",
    }  # fmt: skip
    return own | others


def put(root, *items):
    lines = [one if isinstance(one, str) else json.dumps(one) for one in items]
    put_json(root / "data/examples.jsonl", "".join(f"{line}\n" for line in lines))
    put_images(root / "images", *(f"ex_{i}_img_{j}.png" for i in (0, 1) for j in (0, 1)))
    return root


def test_each_of_two_captions_is_right_for_its_image(tmp_path):
    items = item(), item(1, caption_0="it runs", caption_1="runs it?", collapsed_tag="Relation")
    data = winoground(root=put(tmp_path, *items))
    test = data.splits["test"]
    assert list(test["caption"]) == ["a plant in a pot", "it runs"]
    assert list(test["caption_2"]) == ["a pot in a plant", "runs it?"]
    assert test["image"].examples().ids == ["ex_0_img_0.png", "ex_1_img_0.png"]
    assert test["image_2"].examples().ids == ["ex_0_img_1.png", "ex_1_img_1.png"]
    assert list(test["category"]) == ["Object", "Relation"]
    assert data.expected == {"test": 400}


def test_all_images_are_one_stored_column(tmp_path):
    twice = item(1, image_1="ex_0_img_0")
    test = winoground(root=put(tmp_path, item(), twice)).splits["test"]
    assert test["image"].stored is test["image_2"].stored
    assert test["picture"].stored is test["picture_2"].stored
    assert len(test["image"].stored) == 3
    assert test["image_2"][1].tobytes() == test["picture"][0].image.tobytes()
    assert {test[name].kind for name in ("caption", "caption_2")} == {"text"}


def test_the_lines_may_be_in_the_root_and_the_images_beside_the_lines(tmp_path):
    put(tmp_path, item())
    (tmp_path / "images").rename(tmp_path / "data/images")
    assert len(winoground(root=tmp_path).splits["test"]) == 1
    assert len(winoground(root=tmp_path / "data").splits["test"]) == 1


def test_an_item_of_two_equal_captions_is_left_out_and_counted(tmp_path):
    data = winoground(root=put(tmp_path, item(), item(1, caption_1="a plant in a pot")))
    assert data.dropped == {"items whose foil is the caption": 1}
    assert data.missing_rows() == {"test": 399}


REFUSED = [
    ('{"id": ', r"does not fit \(JSONDecodeError"),
    ("[]", r"does not fit \(TypeError"),
    ({"id": 1}, r"has no 'image_0'"),
    (item(caption_1="\t"), r"a text is empty"),
    (item(collapsed_tag=None), r"None is not a text"),
    (item(image_1="a/b"), r"'a/b' is not the name of an image file"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_a_line_that_does_not_fit_is_named(tmp_path, line, message):
    with pytest.raises(DataError, match=r"^examples\.jsonl, line 2 .*" + message):
        winoground(root=put(tmp_path, item(), line))


def test_a_file_without_lines_is_named(tmp_path):
    with pytest.raises(DataError, match=r"^examples\.jsonl has no item"):
        winoground(root=put(tmp_path))
