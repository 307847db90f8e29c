from pathlib import Path

import pytest

from vlbench.catalog.specs import checked, is_at
from vlbench.catalog.strict_yaml import Document

KEYS = {"name": (str,), "size": (int, float)}


def problems(values):
    return checked(Document(Path("a.yaml"), values, {("size",): 3}), values, KEYS, ())[1]


def test_known_keys_of_the_right_types_have_no_problem():
    assert problems({"name": "a", "size": 1.5}) == []


def test_keys_of_ones_own_are_left_out():
    document = Document(Path("a.yaml"), {}, {})
    assert checked(document, {"x-note": [], "name": "a"}, KEYS, ()) == ({"name": "a"}, [])


def test_a_wrong_type_is_told_with_its_line():
    assert problems({"size": True}) == ["a.yaml:3: 'size' must be int or float, not True"]


@pytest.mark.parametrize(
    ("key", "hint"), [("nmae", "did you mean 'name'?"), ("zzz", "there are name, size")]
)
def test_an_unknown_key_is_told_with_what_there_is(key, hint):
    assert problems({key: 1}) == [f"a.yaml: unknown '{key}'; {hint}"]


def test_conditions_are_texts_and_numbers_by_name():
    assert is_at({"norm": "l2", "epsilon": 0.5, "k": 1})
    assert is_at({})


@pytest.mark.parametrize("at", [3, {1: 2}, {"a": [1]}, {"a": None}])
def test_other_values_are_no_conditions(at):
    assert not is_at(at)
