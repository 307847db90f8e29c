import inspect
import json
from functools import partial

import pytest

import vlbench.errors
from vlbench.errors import (
    DataAbsent,
    DataError,
    UnknownNameError,
    VlbenchError,
    counted,
    defined_at,
    described,
    place_of,
    unknown,
)

ERRORS = [kind for kind in vars(vlbench.errors).values() if inspect.isclass(kind)]
OURS = [kind for kind in ERRORS if kind.__module__ == "vlbench.errors"]


def test_every_error_is_a_vlbench_error():
    assert len(OURS) == 14
    assert [kind for kind in OURS if not issubclass(kind, VlbenchError)] == []


def test_the_tree_in_the_docstring_names_every_error():
    text = vlbench.errors.__doc__
    assert [kind for kind in OURS if kind.__name__ not in text] == []


def test_absent_data_say_what_where_from_and_where_to():
    error = DataAbsent("CIFAR-10", "its page", "$VLBENCH_DATA/cifar10")
    with pytest.raises(
        DataError, match=r"^CIFAR-10 not found; get it from its page; put it at \$VL"
    ):
        raise error
    assert (error.what, error.where_to_get) == ("CIFAR-10", "its page")
    assert error.where_to_put == "$VLBENCH_DATA/cifar10"


def test_an_unknown_name_suggests_the_nearest_three():
    error = unknown("model", "clip-rn5", ["clip-rn50", "clip-rn101", "clip-vit", "dino", "clip-r"])
    assert isinstance(error, UnknownNameError)
    found = str(error).removeprefix("no model is named 'clip-rn5'; did you mean ").split(", ")
    assert (len(found), found[0]) == (3, "clip-rn50")


@pytest.mark.parametrize(("known", "told"), [({"beta", "alpha"}, "alpha, beta"), ([], "none")])
def test_an_unknown_name_like_no_other_lists_all(known, told):
    assert str(unknown("task", "zzz", known)) == f"no task is named 'zzz'; there are {told}"


def raised(function, *arguments):
    with pytest.raises(Exception) as found:  # noqa: PT011 - any
        function(*arguments)
    return found.value.with_traceback(found.value.__traceback__.tb_next)


def test_an_error_in_a_library_is_told_with_the_line_that_called_it():
    def parses(text):
        return json.loads(text)

    line = inspect.getsourcelines(parses)[1] + 1
    assert described(raised(parses, "{")).endswith(f"(char 1) (test_errors.py:{line})")


def test_an_error_in_vlbench_is_told_with_the_users_line_that_led_there():
    def asks():
        return unknown("task", 3, [])

    line = inspect.getsourcelines(asks)[1] + 1
    assert place_of(raised(asks)) == f"test_errors.py:{line}"


def test_an_error_that_no_user_line_led_to_is_told_with_the_line_that_raised_it():
    assert place_of(raised(json.loads, "{")).startswith("decoder.py:")


def test_an_error_of_vlbench_is_its_message_and_one_never_raised_has_no_line():
    assert described(UnknownNameError("no task")) == "no task"
    assert described(KeyError("a")) == "KeyError: 'a'"


def test_an_error_that_cannot_say_anything_is_described_all_the_same():
    class MuteError(RuntimeError):
        def __str__(self):
            raise ValueError

    assert described(MuteError()) == "MuteError: (its message cannot be shown: ValueError)"


def test_a_function_is_named_by_the_line_that_it_begins_at():
    line = inspect.getsourcelines(raised)[1]
    assert defined_at(partial(raised, print)) == f"test_errors.py:{line}"
    assert defined_at(len) == "len"


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 images"), (1, "1 image"), (2, "2 images"), (5794, "5,794 images")]
)
def test_a_number_of_one_has_its_noun_in_the_singular(count, told):
    assert counted(count, "image") == told
