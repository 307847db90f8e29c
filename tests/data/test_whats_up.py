import pytest
from foil_files import put_images, put_json

from vlbench.data.whats_up import SUBSETS, whats_up
from vlbench.errors import DataError


def controlled(name="mug_left_of_table.jpeg", options=None, folder="controlled_images"):
    captions = [f"A mug {place} a table" for place in ("left of", "right of", "on", "under")]
    return {"image_path": f"data/{folder}/{name}", "caption_options": options or captions}


def put(root, subset, *items):
    """Write a subset's file and the images that the tests name."""
    file, folder, *_ = SUBSETS[subset]
    put_json(root / file, list(items))
    names = {
        "controlled_images": ["mug_left_of_table.jpeg", "mug_on_table.jpeg"],
        "controlled_clevr": ["cup_in-front_of_bowl.jpeg", "cup_behind_bowl.jpeg"],
        "val2017": ["000000000042.jpg", "000000000139.jpg"],
        "vg_images": ["42.jpg", "139.jpg"],
    }
    put_images(root / folder, *names[folder])
    return root


def test_the_first_of_four_options_is_the_caption(tmp_path):
    items = controlled(), controlled("mug_on_table.jpeg", ["on", "left", "right", "under"])
    data = whats_up(root=put(tmp_path, "controlled_images", *items), subset="controlled_images")
    test = data.splits["test"]
    assert list(test["caption"]) == ["A mug left of a table", "on"]
    assert test["foils"][1] == ["left", "right", "under"]
    assert list(test["category"]) == ["left_of", "on"]
    assert list(test["cluster"]) == ["mug table", "mug table"]
    assert list(test["pair"]) == ["mug table, left_of or right_of", "mug table, on or under"]
    assert test["image"].examples().ids == ["mug_left_of_table.jpeg", "mug_on_table.jpeg"]


def test_clevr_images_are_in_front_and_behind(tmp_path):
    names = "cup_in-front_of_bowl.jpeg", "cup_behind_bowl.jpeg"
    put(tmp_path, "controlled_clevr", *(controlled(n, folder="controlled_clevr") for n in names))
    test = whats_up(root=tmp_path, subset="controlled_clevr").splits["test"]
    assert list(test["category"]) == ["in-front_of", "behind"]
    assert list(test["cluster"]) == ["cup bowl"] * 2
    assert list(test["pair"]) == ["cup bowl, in-front_of or behind"] * 2


def test_an_image_of_coco_is_named_by_its_id_and_stored_once(tmp_path):
    items = [[139, "A dog on the left", "A dog on the right"], [42, "A cat on the top", "x"]]
    items.append([139, "A sofa on the right", "A sofa on the left"])
    test = whats_up(root=put(tmp_path, "coco_one", *items), subset="coco_one").splits["test"]
    assert list(test["category"]) == ["left", "top", "right"]
    assert test["foils"][0] == ["A dog on the right"]
    assert list(test["image"].rows) == list(test["picture"].rows) == [0, 1, 0]
    assert len(test["image"].stored) == 2
    assert test["image"].examples().ids[0] == "000000000139.jpg"
    assert not {"cluster", "pair"} & {*test.columns}


PREPOSITIONS = [
    ("coco_two", "A dog to the left of a cat", "left"),
    ("coco_two", "A dog to the right of a cat", "right"),
    ("coco_two", "A dog above a cat", "above"),
    ("coco_two", "A dog below a cat", "below"),
    ("vg_two", "A dog in front of a cat", "front"),
    ("vg_two", "A dog behind a cat", "behind"),
    ("vg_two", "A dog on top of a cat", "top"),
    ("vg_one", "A dog on the bottom", "bottom"),
]


@pytest.mark.parametrize(("subset", "caption", "category"), PREPOSITIONS)
def test_the_category_of_a_caption_is_its_preposition(tmp_path, subset, caption, category):
    put(tmp_path, subset, ["42" if subset.startswith("vg") else 42, caption, "A foil"])
    assert list(whats_up(root=tmp_path, subset=subset).splits["test"]["category"]) == [category]


def test_images_may_be_elsewhere(tmp_path):
    put(tmp_path, "coco_one", [42, "A dog on the left", "A dog on the right"])
    elsewhere = (tmp_path / "val2017").rename(tmp_path / "coco")
    test = whats_up(root=tmp_path, subset="coco_one", images=elsewhere).splits["test"]
    assert test["picture"][0].image.size == (8, 6)


def test_each_subset_has_as_many_items_as_the_paper_counts():
    counts = {name: subset.expected for name, subset in SUBSETS.items()}
    assert counts == {
        "controlled_images": 412, "controlled_clevr": 408, "coco_one": 2247, "coco_two": 440,
        "vg_one": 1160, "vg_two": 291,
    }  # fmt: skip


WRONG_ITEMS = [
    ({"image_path": "data/a/b_on_c.jpeg"}, r"has no 'caption_options'"),
    (controlled(options=["A", "B", "C"]), r"\['A', 'B', 'C'\] must be four captions"),
    (controlled(options=["A", "B", "C", ""]), r"a text is empty"),
    (controlled(name="mug_near_table.jpeg"), r"'mug_near_table\.jpeg' has no preposition"),
    (controlled(name="mug_behind_table.jpeg"), r"has no preposition of controlled_images"),
    ({"image_path": 7}, r"7 is not a text"),
]


@pytest.mark.parametrize(("entry", "message"), WRONG_ITEMS)
def test_a_controlled_item_that_does_not_fit_is_named(tmp_path, entry, message):
    put(tmp_path, "controlled_images", entry)
    place = r"^controlled_images_dataset\.json, item 0 .*"
    with pytest.raises(DataError, match=place + message):
        whats_up(root=tmp_path, subset="controlled_images")


WRONG_PAIRS = [
    ([42, "A"], r"\[42, 'A'\] must be an id and two captions"),
    ({"42": "A"}, r"must be an id and two captions"),
    ([-1, "A", "B"], r"-1 is not an id of an image"),
    (["../42", "A", "B"], r"'\.\./42' is not an id of an image"),
    ([True, "A", "B"], r"True is not an id of an image"),
    ([42, "", "B"], r"a text is empty"),
    ([42, "A", None], r"None is not a text"),
]


@pytest.mark.parametrize(("entry", "message"), WRONG_PAIRS)
def test_a_pair_of_captions_that_does_not_fit_is_named(tmp_path, entry, message):
    put(tmp_path, "vg_one", [42, "A", "B"], entry)
    with pytest.raises(DataError, match=r"^vg_qa_one_obj\.json, item 1 .*" + message):
        whats_up(root=tmp_path, subset="vg_one")


def test_a_subset_that_is_none_is_named(tmp_path):
    with pytest.raises(ValueError, match="no subset 'A'; there are controlled_images, contr"):
        whats_up(root=tmp_path, subset="A")
