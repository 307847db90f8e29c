import torch
from fakes import labelled_images
from sources import write

from vlbench.data.records import Column, value_column
from vlbench.engine.keys import features_key, map_key, once_key
from vlbench.plugins import load_file

IMAGES = labelled_images(2).splits["train"]["image"]


class Model: ...


def compute(): ...


def made_by(folder, text):
    """Return a column whose values a file's class makes."""
    stored = load_file(write(folder / "loader.py", text)).Stored()
    return Column("the same content", "image", stored, range(2))


STORED = "class Stored:\n    def __getitem__(self, i):\n        return i\n"


def test_features_are_kept_apart_by_model_method_and_column():
    other = labelled_images(3).splits["train"]["image"]
    keys = {
        features_key("a", compute, "encode_images", IMAGES),
        features_key("b", compute, "encode_images", IMAGES),
        features_key("a", compute, "encode_texts", IMAGES),
        features_key("a", compute, "encode_images", other),
    }
    assert len(keys) == 4


def test_features_are_shared_by_selections_of_a_column_and_outputs_of_functions_are_not():
    part = IMAGES.select([1])
    assert features_key("a", compute, "f", IMAGES) == features_key("a", compute, "f", part)
    assert map_key([compute], [IMAGES], {"k": 1}, {}) != map_key([compute], [part], {"k": 1}, {})


def test_the_code_that_makes_a_columns_values_counts(tmp_path):
    columns = [
        made_by(tmp_path / "a", STORED),
        made_by(tmp_path / "b", STORED),
        made_by(tmp_path / "c", STORED.replace("return i", "return -i")),
    ]
    keys = [features_key("a", compute, "f", column) for column in columns]
    assert keys[0] == keys[1] != keys[2]


def test_a_model_counts_by_its_identity_and_one_without_has_no_key():
    model = Model()
    keys = [once_key(compute, {"model": model}, {id(model): known}) for known in ("a", "b", "")]
    assert keys[0] != keys[1]
    assert keys[2] is None
    assert map_key([compute], [IMAGES], {"model": model}, {id(model): ""}) is None
    assert features_key("", compute, "f", IMAGES) is None


def test_code_that_no_file_holds_has_no_key():
    space = {"__name__": "a_notebook"}
    exec("def f(): ...\n", space)  # noqa: S102 - as a notebook does
    assert once_key(space["f"], {"k": 1}, {}) is None


def test_tensors_and_plain_values_count_by_content():
    keys = {
        once_key(compute, key, {})
        for key in ({"x": torch.ones(2)}, {"x": torch.zeros(2)}, {"x": None}, {"x": [1, "a"]})
    }
    assert len(keys) == 4
    assert once_key(compute, {"x": torch.ones(2)}, {}) in keys


def test_columns_of_plain_values_have_a_key():
    assert map_key([compute], [value_column(["a"], "text")], {"k": 1}, {})
