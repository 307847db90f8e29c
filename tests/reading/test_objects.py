import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from vlbench.errors import SpecError
from vlbench.reading.objects import read_as, spelled


@dataclass(frozen=True)
class Trial:
    name: str
    ends: tuple[float, float] | None = None
    parts: Sequence[int] = ()
    at: Mapping[str, str | int] = field(default_factory=dict)
    more: Any = None


def test_a_key_is_spelled_with_dots_and_brackets():
    assert spelled(("rows", 3, "ci95")) == "rows[3].ci95"
    assert spelled(("a\x1b[2J",)) == r"'a\x1b[2J'"


def test_json_is_read_as_the_dataclass_that_it_was_written_from():
    whole = {"name": "a", "ends": [0, 1.5], "parts": [1], "at": {"k": 1, "l": "x"}, "more": [None]}
    assert read_as(Trial, whole, ()) == Trial("a", (0, 1.5), [1], {"k": 1, "l": "x"}, [None])
    assert read_as(Trial, {"name": "a", "ends": None}, ()) == Trial("a")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "trial: wanted an object, not a list"),
        ({}, "trial.name: is absent"),
        ({"name": None}, "trial.name: wanted a text, not null"),
        ({"name": "a", "nme": 1}, "trial.nme: is unknown; there are name, ends, parts, at, more"),
        ({"name": "a", "ends": [1]}, "trial.ends: wanted two numbers or null, not a list"),
        ({"name": "a", "ends": [1, "b"]}, "trial.ends: wanted two numbers or null, not a list"),
        ({"name": "a", "parts": {}}, "trial.parts: wanted a list, not an object"),
        ({"name": "a", "parts": [1, True]}, "trial.parts[1]: wanted a whole number, not true"),
        ({"name": "a", "at": [1]}, "trial.at: wanted an object, not a list"),
        ({"name": "a", "at": {"k": 0.5}}, "trial.at.k: wanted a text or a whole number, not 0.5"),
        ({"name": "a", "more": [math.inf]}, "trial.more[0]: wanted a number, not Infinity"),
        ({"name": "a", "more": {"x": ["\udc80"]}}, r"trial.more.x[0]: wanted a text, not '\udc80'"),
    ],
)
def test_json_that_does_not_fit_is_refused_by_key(given, why):
    with pytest.raises(SpecError) as caught:
        read_as(Trial, given, ("trial",))
    assert str(caught.value) == why
