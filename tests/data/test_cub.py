import numpy as np
import pytest
from PIL import Image

from vlbench.data.cub import cub
from vlbench.data.records import labels
from vlbench.errors import DataError

NAMES = {
    1: "001.Black_footed_Albatross/A_1.jpg",
    2: "001.Black_footed_Albatross/A_2.jpg",
    10: "002.Laysan_Albatross/B_10.jpg",
}
LISTS = {
    "images.txt": "".join(f"{i} {name}\n" for i, name in NAMES.items()),
    "image_class_labels.txt": "1 1\n2 1\n10 2\n",
    "train_test_split.txt": "1 1\n2 0\n10 1\n",
    "classes.txt": "1 001.Black_footed_Albatross\n2 002.Laysan_Albatross\n",
}


def put(root, **lists):
    folder = root / "CUB_200_2011"
    for i, name in NAMES.items():
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (i, 5)).save(folder / "images" / name)
    for name, content in LISTS.items():
        (folder / name).write_text(lists.get(name.removesuffix(".txt"), content))
    return root


def test_one_in_the_list_is_train_and_labels_count_from_zero(tmp_path):
    splits = cub(root=put(tmp_path)).splits
    assert labels(splits["train"]).tolist() == [0, 1]
    assert [image.width for image in splits["train"]["image"]] == [1, 10]
    assert [image.width for image in splits["test"]["image"]] == [2]


def test_classes_are_species(tmp_path):
    assert cub(root=put(tmp_path)).classes == ["Black footed Albatross", "Laysan Albatross"]


def test_lists_are_joined_by_id_not_by_line(tmp_path):
    root = put(tmp_path, image_class_labels="10 2\n2 1\n1 1\n")
    assert labels(cub(root=root).splits["train"]).tolist() == [0, 1]


def test_the_root_may_be_the_folder_itself(tmp_path):
    data = cub(root=put(tmp_path) / "CUB_200_2011")
    assert data.missing_rows() == {"train": 5_992, "test": 5_793}


WRONG_LISTS = [
    ({"train_test_split": "1 1\n10 1\n"}, r"train_test_split\.txt does not contain image 2"),
    ({"train_test_split": "1 1\n2 x\n10 1\n"}, r"train_test_split\.txt: 'x' is not a number"),
    ({"train_test_split": "1 1\n2 2\n10 1\n"}, "image 2 is neither 1"),
    ({"image_class_labels": "1 1\n2 1\n10 3\n"}, r"label 2 is not in 0\.\.1"),
    ({"images": LISTS["images.txt"] * 2}, r"^images\.txt has two lines of id 1; fetch it again"),
    ({"train_test_split": "1 1\n2 0\n10 1\n2 1\n"}, "split.txt has two lines of id 2"),
    ({"image_class_labels": f"1 1\n2 1\n10 {'9' * 5000}\n"}, r"labels\.txt: '9+' is not a num"),
    ({"images": "1\n"}, r"images\.txt, line 1: must be an id and a value"),
    ({"classes": "0 a\n1 b\n"}, r"classes\.txt must number its lines from 1"),
]


@pytest.mark.parametrize(("lists", "message"), WRONG_LISTS)
def test_a_list_that_does_not_fit_is_named(tmp_path, lists, message):
    with pytest.raises(DataError, match=message):
        cub(root=put(tmp_path, **lists))


def test_the_real_sample_has_three_of_ten_classes_in_each_split(real_data):
    root = real_data / "cub_200_2011_sample"
    data = cub(root=root)
    assert len(data.classes) == 200
    assert np.bincount(labels(data.splits["train"])).tolist() == [3] * 10
    assert np.bincount(labels(data.splits["test"])).tolist() == [3] * 10
    name = "001.Black_footed_Albatross/Black_Footed_Albatross_0074_59.jpg"
    picture = Image.open(root / "CUB_200_2011/images" / name).convert("RGB")
    assert data.splits["train"]["image"][0].tobytes() == picture.tobytes()
