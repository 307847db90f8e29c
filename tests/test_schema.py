import dataclasses
import functools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import pytest

from vlbench.capabilities import ImageEncoder, TextEncoder
from vlbench.code.plugins import load_file
from vlbench.errors import SpecError
from vlbench.results import Positive
from vlbench.schema import (
    Misfit,
    ModelName,
    hints,
    is_record,
    leaves,
    map_leaves,
    parameters,
    read,
    read_arguments,
    spelled,
)


def probe(
    model: ImageEncoder,
    data,
    engine,
    *,
    shots: list[int],
    rate: float = 0.5,
    other: TextEncoder | None = None,
    seed: int = 0,
): ...


class Training(NamedTuple):
    epochs: int
    rate: float = 0.1


FILLED = ("model", "data", "engine")


def problems(function, given, filled=FILLED):
    with pytest.raises(Misfit) as caught:
        read_arguments(function, given, filled)
    return list(map(str, caught.value.problems))


def test_a_file_may_have_dataclasses_with_postponed_annotations(tmp_path):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    (tmp_path / "zz.py").write_text(text + "@dataclass\nclass C:\n    x: int = 3\n")
    kind = load_file(tmp_path / "zz.py").C
    assert dataclasses.asdict(kind()) == {"x": 3}
    assert problems(kind, {"x": "3"}) == ["'x' must be a whole number, not '3'"]


def test_arguments_that_fit_are_returned_and_defaults_left_to_python():
    given = {"shots": [1, 5], "rate": 1}
    assert read_arguments(probe, given, FILLED) == {"shots": [1, 5], "rate": 1.0}


def test_an_unknown_argument_suggests_the_nearest():
    assert problems(probe, {"shots": [1], "sed": 1}) == ["'sed' is unknown; did you mean 'seed'?"]


def test_an_unknown_argument_like_no_other_lists_what_there_is():
    message = "'zzz' is unknown; there are shots, rate, other, seed"
    assert problems(probe, {"shots": [1], "zzz": 1}) == [message]


def test_what_vlbench_fills_is_no_argument():
    assert problems(probe, {"shots": [1], "engine": "x"})[0].startswith("'engine' is unknown; ")


def test_a_missing_argument_is_named():
    assert problems(probe, {}) == ["'shots' is missing"]


def test_every_problem_is_told_at_once():
    told = problems(probe, {"rate": "x", "zzz": 1})
    assert [message.split()[0] for message in told] == ["'zzz'", "'shots'", "'rate'"]


def test_a_misspelt_argument_is_not_called_missing_too():
    assert problems(probe, {"shot": [1]}) == ["'shot' is unknown; did you mean 'shots'?"]


def test_an_argument_with_a_default_may_be_required():
    with pytest.raises(Misfit, match="'rate' is missing"):
        read_arguments(probe, {"shots": [1]}, FILLED, ["rate"])


def test_a_problem_knows_its_key_and_tells_where_it_stands():
    with pytest.raises(Misfit) as caught:
        read_arguments(probe, {"shots": [1, "x"]}, FILLED)
    assert [problem.key for problem in caught.value.problems] == [("shots", 1)]
    lines = caught.value.below("params").lines(lambda *key: f"a.yaml:{len(key)}")
    assert lines == ["a.yaml:3: 'params.shots[1]' must be a whole number, not 'x'"]


def test_a_companion_is_the_name_of_a_model():
    found = read_arguments(probe, {"shots": [1], "other": "m"}, FILLED)["other"]
    assert (found, type(found)) == ("m", ModelName)
    assert read_arguments(probe, {"shots": [1], "other": None}, FILLED)["other"] is None
    assert problems(probe, {"shots": [1], "other": 5}) == [
        "'other' must be the name of a model or null, not 5"
    ]


def test_companions_are_a_list_of_names():
    assert read(list[ImageEncoder], ["a", "b"]) == ["a", "b"]
    with pytest.raises(Misfit, match="must be a list of names of models, not 'a'"):
        read(list[ImageEncoder], "a")
    with pytest.raises(Misfit, match=r"'\[1\]' must be the name of a model, not 5"):
        read(list[ImageEncoder], ["a", 5])


@pytest.mark.parametrize(
    ("value", "annotation", "wanted"),
    [
        (3, int, 3),
        (3, float, 3.0),
        (0.5, float, 0.5),
        ("a/b", Path, Path("a/b")),
        ("a", str, "a"),
        ([1, 2], list[float], [1.0, 2.0]),
        ([1, 2], Sequence[int], [1, 2]),
        ([[1], [2]], list[list[int]], [[1], [2]]),
        ([1, None], list[int | None], [1, None]),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        ({"a": {"b": "c"}}, Mapping[str, dict[str, Path]], {"a": {"b": Path("c")}}),
        (None, int | None, None),
        (3, int | None, 3),
        (3, float | None, 3.0),
        (3, int | float, 3),
        ("l2", Literal["l1", "l2"], "l2"),
        ("auto", int | Literal["auto"], "auto"),
        (1, Positive, 1),
        ([3], Sequence[Positive] | None, [3]),
        ({"any": [1]}, Any, {"any": [1]}),
        ([1, "a"], list, [1, "a"]),
        ([1, 2], tuple[float, float], (1.0, 2.0)),
        ("a", str | Path, "a"),
        ("a", Path | None, Path("a")),
        ([1], list[str] | list[int], [1]),
        ({1: {"a": True}}, Any, {1: {"a": True}}),
    ],
)
def test_a_value_becomes_what_its_annotation_says(value, annotation, wanted):
    found = read(annotation, value)
    assert (type(found), repr(found)) == (type(wanted), repr(wanted))


@pytest.mark.parametrize(
    ("value", "annotation", "wanted"),
    [
        (True, int, "a whole number, not true"),
        (True, float, "a number, not true"),
        (1, bool, "true or false, not 1"),
        (1.0, int, "a whole number, not 1.0"),
        ("1", int, "a whole number, not '1'"),
        (1, str, "a text, not 1"),
        (None, int, "a whole number, not null"),
        (5, Path, "a path, not 5"),
        (math.nan, float, "a number, not NaN"),
        (10**400, int, "a whole number, not 1000"),
        ("\udc80", str, r"a text, not '\\udc80'"),
        (5, list[int], "a list of whole numbers, not 5"),
        ({}, list[list[int]], "a list of lists, not a mapping"),
        ([1], tuple[float, float], "a list of 2 numbers, not a list"),
        ("x", int | None, "a whole number or null, not 'x'"),
        ("l3", Literal["l1", "l2"], "'l1' or 'l2', not 'l3'"),
        ("no", bool, "true or false, not 'no'"),
        ("x", Mapping[str, int] | int, "a mapping or a whole number, not 'x'"),
        (5, Training, "a mapping of epochs, rate, not 5"),
        (0, Positive, "a whole number of at least 1, not 0"),
        (1.5, Positive, "a whole number, not 1.5"),
        (-1, Positive | None, "a whole number of at least 1 or null, not -1"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_what_was_wanted(value, annotation, wanted):
    with pytest.raises(Misfit, match=rf"^must be {wanted}"):
        read(annotation, value)


@pytest.mark.parametrize(
    ("value", "annotation", "told"),
    [
        ([1, True], list[int], "'[1]' must be a whole number, not true"),
        ([1, "a"], list[int], "'[1]' must be a whole number, not 'a'"),
        ({"a": "b"}, dict[str, float], "'a' must be a number, not 'b'"),
        ({1: 1.0}, dict[str, float], "'1' must be a text, not 1"),
        ([[1, "b"]], list[tuple[float, float]], "'[0][1]' must be a number, not 'b'"),
        ([None, [1, "b"]], list[tuple[int, int] | None], "'[1][1]' must be a whole number, not"),
        ({"x": [math.inf]}, Any, "'x[0]' must be a number, not Infinity"),
        ({"x\x1b": "\ud800"}, Any, "''x\\x1b'' must be a text, not '\\ud800'"),
    ],
)
def test_what_is_wrong_inside_is_named_by_its_key(value, annotation, told):
    with pytest.raises(Misfit) as caught:
        read(annotation, value)
    assert str(caught.value).startswith(told)


def test_the_first_problems_of_a_long_list_are_told():
    with pytest.raises(Misfit) as caught:
        read(list[int], ["x"] * 1000)
    assert len(caught.value.problems) == 20


def test_what_is_nested_without_end_is_refused():
    nested = json.loads("[" * 51 + "]" * 51)
    with pytest.raises(Misfit, match="must be something less deeply nested, not a list"):
        read(Any, nested)
    assert read(Any, nested[0]) == nested[0]


def test_a_key_is_spelled_with_dots_and_brackets():
    assert spelled(("rows", 3, "ci95")) == "rows[3].ci95"
    assert spelled(("a\x1b[2J",)) == r"'a\x1b[2J'"


@pytest.mark.parametrize("value", [True, 1.0])
def test_a_literal_one_is_no_other_one(value):
    with pytest.raises(Misfit, match="must be"):
        read(Literal[1, 2], value)


def test_a_sequence_of_anything_takes_a_list():
    assert read(Sequence, [1, "a"]) == [1, "a"]


def test_a_key_that_is_a_number_is_an_unknown_argument():
    assert problems(probe, {"shots": [1], 2: 3})[0].startswith("'2' is unknown; ")


def test_the_annotations_of_a_class_are_those_of_its_init():
    class Adapter:
        def __init__(self, *, size: int, name="x"): ...

    assert {k: hints(Adapter)[k] for k in ("size", "name")} == {"size": int, "name": Any}
    assert set(parameters(Adapter)) == {"size", "name"}


def test_a_class_without_init_takes_no_arguments():
    class Adapter: ...

    assert problems(Adapter, {"size": 1}) == ["'size' is unknown; there are none"]


def test_catch_all_parameters_let_nothing_pass():
    def function(*args, size: int = 1, **rest): ...

    assert problems(function, {"rest": 1, "sizes": 2}) == [
        "'rest' is unknown; there are size",
        "'sizes' is unknown; did you mean 'size'?",
    ]


def test_an_annotation_that_does_not_resolve_names_the_function(tmp_path):
    text = "from __future__ import annotations\ndef zz(x: Nowhere): ...\n"
    (tmp_path / "zz.py").write_text(text)
    with pytest.raises(
        SpecError, match=r"zz: an annotation in its signature cannot be resolved: .*Nowhere"
    ):
        read_arguments(load_file(tmp_path / "zz.py").zz, {"x": 1})


@pytest.mark.parametrize("thing", [math.pi, functools.partial(probe, rate=1.0), dict])
def test_what_has_no_signature_to_check_is_refused(thing):
    with pytest.raises(SpecError, match=r"signature|called"):
        read_arguments(thing, {})


@dataclasses.dataclass(frozen=True)
class Nested:
    training: Training
    names: Sequence[str] = ()


@dataclasses.dataclass
class Changeable:
    epochs: int


def learns(*, training: Training, nested: Nested | None = None, several: list[Training] = ()): ...


def test_a_mapping_fills_a_named_tuple_or_a_frozen_dataclass_by_its_fields():
    given = {
        "training": {"epochs": 3},
        "nested": {"training": {"epochs": 1, "rate": 2}, "names": ["a"]},
        "several": [{"epochs": 5}],
    }
    arguments = read_arguments(learns, given)
    assert arguments == {
        "training": Training(3, 0.1),
        "nested": Nested(Training(1, 2.0), ["a"]),
        "several": [Training(5, 0.1)],
    }
    assert isinstance(arguments["training"], Training)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"training": {}}, "'training.epochs' is missing"),
        ({"training": {"epochs": "3"}}, "'training.epochs' must be a whole number, not '3'"),
        (
            {"training": {"epochs": 3, "rates": 1}},
            "'training.rates' is unknown; did you mean 'rate'?",
        ),
        (
            {"training": Training(1), "nested": {"training": {"epochs": True}}},
            "'nested.training.epochs' must be a whole number, not true",
        ),
        ({"training": 3}, "'training' must be a mapping of epochs, rate, not 3"),
        (
            {"training": Training(1), "several": [{"epochs": 1}, {}]},
            "'several[1].epochs' is missing",
        ),
    ],
)
def test_a_problem_of_a_nested_key_is_told_with_its_dotted_name(given, message):
    assert problems(learns, given, ()) == [message]


class Named(TypedDict):
    metric: str


class Scored(Named, total=False):
    at: Mapping[str, int]


def test_a_mapping_of_known_keys_stays_one():
    assert read(Scored, {"metric": "a"}) == {"metric": "a"}
    assert read(Scored, {"metric": "a", "at": {"k": 1}}) == {"metric": "a", "at": {"k": 1}}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"at": {}}, "'metric' is missing"),
        ({"metric": "a", "at": {"k": "x"}}, "'at.k' must be a whole number, not 'x'"),
        ({"metric": "a", "aat": {}}, "'aat' is unknown; did you mean 'at'?"),
    ],
)
def test_a_mapping_of_other_keys_is_refused(given, told):
    with pytest.raises(Misfit, match=told):
        read(Scored, given)


def test_what_may_change_is_no_record():
    assert is_record(Training)
    assert is_record(Nested)
    assert not is_record(Changeable)
    assert not is_record(tuple)
    assert not is_record(Training(1))


class Box(NamedTuple):
    where: Path
    names: list


@dataclasses.dataclass(frozen=True)
class Frozen:
    box: Box


NESTED = {"a": [1, ("b", Frozen(Box(Path("c"), ["d"])))], "e": {}, "f": None}


def test_leaves_stand_under_names_with_dots():
    assert dict(leaves(NESTED, "top")) == {
        "top.a.0": 1,
        "top.a.1.0": "b",
        "top.a.1.1.box.where": Path("c"),
        "top.a.1.1.box.names.0": "d",
        "top.f": None,
    }
    assert dict(leaves("alone", "name")) == {"name": "alone"}


def test_changed_leaves_keep_what_holds_them():
    changed = map_leaves(NESTED, lambda name, one: f"{name}={one}", "top")
    inner = Frozen(Box("top.a.1.1.box.where=c", ["top.a.1.1.box.names.0=d"]))
    assert changed == {
        "a": ["top.a.0=1", ("top.a.1.0=b", inner)],
        "e": {},
        "f": "top.f=None",
    }
    assert NESTED["a"][0] == 1
