import inspect

import pytest

import vlbench.errors
from vlbench.errors import DataAbsent, DataError, UnknownNameError, VlbenchError, unknown

ERRORS = [kind for kind in vars(vlbench.errors).values() if inspect.isclass(kind)]
OURS = [kind for kind in ERRORS if kind.__module__ == "vlbench.errors"]


def test_every_error_is_a_vlbench_error():
    assert len(OURS) == 11
    assert [kind for kind in OURS if not issubclass(kind, VlbenchError)] == []


def test_the_tree_in_the_docstring_names_every_error():
    text = vlbench.errors.__doc__
    assert [kind for kind in OURS if kind.__name__ not in text] == []


def test_absent_data_say_what_where_from_and_where_to():
    error = DataAbsent("CIFAR-10", "its page", "$VLBENCH_DATA/cifar10")
    with pytest.raises(
        DataError, match=r"^CIFAR-10 is absent; get it from its page; put it at \$VL"
    ):
        raise error
    assert (error.what, error.where_to_get) == ("CIFAR-10", "its page")
    assert error.where_to_put == "$VLBENCH_DATA/cifar10"


def test_an_unknown_name_suggests_the_nearest_three():
    error = unknown("model", "clip-rn5", ["clip-rn50", "clip-rn101", "clip-vit", "dino", "clip-r"])
    assert isinstance(error, UnknownNameError)
    found = str(error).removeprefix("no model is named 'clip-rn5'; did you mean ").split(", ")
    assert (len(found), found[0]) == (3, "clip-rn50")


def test_an_unknown_name_like_no_other_lists_all():
    message = "no task is named 'zzz'; there are alpha, beta"
    assert str(unknown("task", "zzz", {"beta", "alpha"})) == message


def test_an_unknown_name_among_none_says_so():
    assert str(unknown("task", "zzz", [])) == "no task is named 'zzz'; there are none"
