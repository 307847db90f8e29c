from pathlib import Path

import pytest

from vlbench.catalog.specs import ModelSpec, Primary, read_values
from vlbench.catalog.strict_yaml import Document
from vlbench.schema import Misfit, read


def problems(values):
    document = Document(Path("a.yaml"), values, {("training_images",): 3})
    return read_values(ModelSpec, document, values)[1]


def test_known_keys_of_the_right_types_have_no_problem():
    assert problems({"adapter": "a:B", "training_images": 1.5}) == []


def test_keys_of_ones_own_are_left_out():
    values = {"x-note": [], "adapter": "a"}
    assert read_values(ModelSpec, Document(Path("a.yaml"), {}, {}), values) == (
        {"adapter": "a"},
        [],
    )


def test_a_wrong_type_is_told_with_its_line():
    (told,) = problems({"training_images": True})
    assert told.startswith("a.yaml:3: 'training_images' must be a number")


@pytest.mark.parametrize(
    ("key", "hint"), [("adaptr", "did you mean 'adapter'?"), ("zzz", "there are adapter, params, ")]
)
def test_an_unknown_key_is_told_with_what_there_is(key, hint):
    (told,) = problems({key: 1})
    assert told.startswith(f"a.yaml: '{key}' is unknown; {hint}")


@pytest.mark.parametrize("key", ["name", "source", "document"])
def test_what_no_key_of_a_file_gives_is_unknown(key):
    assert f"'{key}' is unknown" in problems({key: "x"})[0]


def test_conditions_are_texts_and_numbers_by_name():
    at = {"norm": "l2", "epsilon": 0.5, "k": 1}
    assert read(Primary, {"metric": "a", "at": at}) == {"metric": "a", "at": at}


@pytest.mark.parametrize("at", [3, {1: 2}, {"a": [1]}, {"a": None}])
def test_other_values_are_no_conditions(at):
    with pytest.raises(Misfit):
        read(Primary, {"metric": "a", "at": at})
