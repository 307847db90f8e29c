import dataclasses
import functools
import math
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from vlbench.capabilities import ImageEncoder, TextEncoder
from vlbench.errors import SpecError
from vlbench.resolve import (
    check_arguments,
    convert,
    hints,
    is_record,
    load_file,
    load_object,
    parameters,
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


FILLED = ("model", "data", "engine")


def checked(function, given, filled=FILLED):
    arguments, problems = check_arguments(function, given, filled=filled)
    return arguments, [problem.message for problem in problems]


def test_a_file_beside_comes_before_a_module_of_that_name(tmp_path):
    (tmp_path / "json.py").write_text("dumps = 'ours'\n")
    assert load_object("json:dumps", [tmp_path]) == "ours"


def test_the_first_folder_that_has_the_file_wins(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "b" / "zz.py").write_text("x = 'b'\n")
    (tmp_path / "c" / "zz.py").write_text("x = 'c'\n")
    assert load_object("zz:x", [tmp_path / "a", tmp_path / "b", tmp_path / "c"]) == "b"


def test_without_a_file_it_is_an_ordinary_import(tmp_path):
    assert load_object("math:sqrt", [tmp_path]) is math.sqrt
    assert load_object("collections.abc:Mapping", []) is Mapping


def test_a_file_has_a_private_name_and_sys_path_stays(tmp_path):
    (tmp_path / "math.py").write_text("def f(): ...\n")
    before = list(sys.path)
    function = load_object("math:f", [tmp_path])
    assert sys.path == before
    assert function.__module__.startswith("vlbench.plugins.")
    assert sys.modules["math"] is math


def test_a_file_may_import_the_module_that_it_is_named_after(tmp_path):
    (tmp_path / "bisect.py").write_text("import bisect\nf = bisect.bisect_left\n")
    assert load_object("bisect:f", [tmp_path])([1, 2, 3], 2) == 1


def test_two_files_of_one_name_are_two_modules(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "zz.py").write_text(f"x = {name!r}\n")
    assert load_object("zz:x", [tmp_path / "a"]) == "a"
    assert load_object("zz:x", [tmp_path / "b"]) == "b"


def test_a_file_is_loaded_once(tmp_path):
    (tmp_path / "zz.py").write_text("x = object()\n")
    assert load_object("zz:x", [tmp_path]) is load_object("zz:x", [tmp_path / "." / ""])


def test_a_function_and_an_object_of_a_file_can_be_pickled(tmp_path):
    (tmp_path / "zz.py").write_text("def f(): ...\nclass C:\n    def g(self): return 5\n")
    function, kind = load_object("zz:f", [tmp_path]), load_object("zz:C", [tmp_path])
    assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(kind().g))() == 5  # noqa: S301 - our own bytes


def test_a_file_may_have_dataclasses_with_postponed_annotations(tmp_path):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    (tmp_path / "zz.py").write_text(text + "@dataclass\nclass C:\n    x: int = 3\n")
    kind = load_object("zz:C", [tmp_path])
    assert dataclasses.asdict(kind()) == {"x": 3}
    assert checked(kind, {"x": "3"}) == ({}, ["'x' must be int, not '3'"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import zz_nowhere", "ModuleNotFoundError: No module named 'zz_nowhere'"),
        ("def f(:", "SyntaxError"),
        ("x = y", "NameError"),
        ("import math; math.zz", "AttributeError"),
        ("1 + 'a'", "TypeError"),
        ("int('a')", "ValueError"),
        ("from . import x", "ImportError"),
    ],
)
def test_a_file_that_does_not_import_is_told_and_leaves_no_module(tmp_path, text, error):
    (tmp_path / "zz_broken.py").write_text(text)
    with pytest.raises(SpecError, match=f"'zz_broken' cannot be imported: {error}"):
        load_object("zz_broken:f", [tmp_path])
    assert [name for name in sys.modules if name.endswith("zz_broken")] == []


@pytest.mark.parametrize(
    "text",
    ["raise RuntimeError('no GPU')", "open('/zz')", "{}['k']", "assert not 1", "1 / 0"],
)
def test_whatever_a_file_raises_when_imported_is_told(tmp_path, text):
    (tmp_path / "zz_broken.py").write_text(text)
    with pytest.raises(SpecError, match="'zz_broken' cannot be imported"):
        load_object("zz_broken:f", [tmp_path])


def test_a_file_that_raises_leaves_no_module(tmp_path):
    (tmp_path / "zz_raises.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_file(tmp_path / "zz_raises.py")
    assert [name for name in sys.modules if name.endswith("zz_raises")] == []


@pytest.mark.parametrize("name", ["math", "math:", ":sqrt", ":", ""])
def test_a_name_without_module_and_object_is_refused(name):
    with pytest.raises(SpecError, match=f"'{name}' is not of the form module:name"):
        load_object(name, [])


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(SpecError, match="no module is named 'zz_nowhere'"):
        load_object("zz_nowhere:f", [])


def test_an_object_that_is_not_there_suggests_the_nearest():
    with pytest.raises(SpecError, match="'math' has no 'sqroot'; did you mean 'sqrt'"):
        load_object("math:sqroot", [])


def test_an_object_like_no_other_is_named():
    with pytest.raises(SpecError, match=r"'math' has no 'zzzzzz'$"):
        load_object("math:zzzzzz", [])


def test_arguments_that_fit_are_returned_and_defaults_left_to_python():
    assert checked(probe, {"shots": [1, 5], "rate": 1}) == ({"shots": [1, 5], "rate": 1.0}, [])


def test_an_unknown_argument_suggests_the_nearest():
    assert checked(probe, {"shots": [1], "sed": 1})[1] == ["unknown 'sed'; did you mean 'seed'?"]


def test_an_unknown_argument_like_no_other_lists_what_there_is():
    message = "unknown 'zzz'; there are shots, rate, other, seed"
    assert checked(probe, {"shots": [1], "zzz": 1})[1] == [message]


def test_what_vlbench_fills_is_no_argument():
    assert checked(probe, {"shots": [1], "engine": "x"})[1][0].startswith("unknown 'engine'; ")


def test_a_missing_argument_is_named():
    assert checked(probe, {}) == ({}, ["'shots' is missing"])


def test_every_problem_is_told_at_once():
    _, problems = checked(probe, {"rate": "x", "zzz": 1})
    assert [message.split()[0] for message in problems] == ["unknown", "'shots'", "'rate'"]


def test_a_problem_knows_its_key():
    _, problems = check_arguments(probe, {"shots": [1], "seed": True}, filled=FILLED)
    assert [problem.key for problem in problems] == ["seed"]


def test_a_companion_is_the_name_of_a_model():
    assert checked(probe, {"shots": [1], "other": "m"})[0]["other"] == "m"
    assert checked(probe, {"shots": [1], "other": None})[0]["other"] is None
    assert checked(probe, {"shots": [1], "other": 5})[1] == [
        "'other' must be the name of a model, not 5"
    ]


def test_companions_are_a_list_of_names():
    assert convert(["a", "b"], list[ImageEncoder]) == ["a", "b"]
    with pytest.raises(TypeError, match="must be the name of a model, not 'a'"):
        convert("a", list[ImageEncoder])
    with pytest.raises(TypeError, match=r"not \['a', 5\]"):
        convert(["a", 5], list[ImageEncoder])


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
        ({"any": [1]}, Any, {"any": [1]}),
        ([1, "a"], list, [1, "a"]),
    ],
)
def test_a_value_becomes_what_its_annotation_says(value, annotation, wanted):
    found = convert(value, annotation)
    assert (type(found), repr(found)) == (type(wanted), repr(wanted))


@pytest.mark.parametrize(
    ("value", "annotation", "wanted"),
    [
        (True, int, "int"),
        (True, float, "float"),
        (1, bool, "bool"),
        (1.0, int, "int"),
        ("1", int, "int"),
        (1, str, "str"),
        (None, int, "int"),
        (5, Path, "Path"),
        (5, list[int], r"list\[int\]"),
        ([1, True], list[int], r"list\[int\]"),
        ([1, "a"], list[int], r"list\[int\]"),
        ({"a": "b"}, dict[str, float], r"dict\[str, float\]"),
        ({1: 1.0}, dict[str, float], r"dict\[str, float\]"),
        ("x", int | None, "int or null"),
        ("l3", Literal["l1", "l2"], r"typing.Literal\['l1', 'l2'\]"),
        ("no", bool, "bool"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_what_was_wanted(value, annotation, wanted):
    with pytest.raises(TypeError, match=rf"^must be {wanted}, not "):
        convert(value, annotation)


@pytest.mark.parametrize("value", [True, 1.0])
def test_a_literal_one_is_no_other_one(value):
    with pytest.raises(TypeError, match="must be"):
        convert(value, Literal[1, 2])


def test_a_sequence_of_anything_takes_a_list():
    assert convert([1, "a"], Sequence) == [1, "a"]


def test_a_key_that_is_a_number_is_an_unknown_argument():
    assert checked(probe, {"shots": [1], 2: 3})[1][0].startswith("unknown '2'; ")


def test_the_annotations_of_a_class_are_those_of_its_init():
    class Adapter:
        def __init__(self, *, size: int, name="x"): ...

    assert {k: hints(Adapter)[k] for k in ("size", "name")} == {"size": int, "name": Any}
    assert set(parameters(Adapter)) == {"size", "name"}


def test_a_class_without_init_takes_no_arguments():
    class Adapter: ...

    assert checked(Adapter, {"size": 1})[1] == ["unknown 'size'; there are none"]


def test_catch_all_parameters_let_nothing_pass():
    def function(*args, size: int = 1, **rest): ...

    assert checked(function, {"rest": 1, "sizes": 2})[1] == [
        "unknown 'rest'; there are size",
        "unknown 'sizes'; did you mean 'size'?",
    ]


def test_an_annotation_that_does_not_resolve_names_the_function(tmp_path):
    text = "from __future__ import annotations\ndef zz(x: Nowhere): ...\n"
    (tmp_path / "zz.py").write_text(text)
    with pytest.raises(
        SpecError, match=r"zz: an annotation of its signature does not resolve: .*Nowhere"
    ):
        check_arguments(load_object("zz:zz", [tmp_path]), {"x": 1})


@pytest.mark.parametrize("thing", [math.pi, functools.partial(probe, rate=1.0), dict])
def test_what_has_no_signature_to_check_is_refused(thing):
    with pytest.raises(SpecError, match=r"signature|called"):
        check_arguments(thing, {})


class Training(NamedTuple):
    epochs: int
    rate: float = 0.1


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
    arguments, problems = check_arguments(learns, given)
    assert problems == []
    assert arguments == {
        "training": Training(3, 0.1),
        "nested": Nested(Training(1, 2.0), ["a"]),
        "several": [Training(5, 0.1)],
    }
    assert isinstance(arguments["training"], Training)


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"training": {}}, "training.epochs", "'training.epochs' is missing"),
        (
            {"training": {"epochs": "3"}},
            "training.epochs",
            "'training.epochs' must be int, not '3'",
        ),
        (
            {"training": {"epochs": 3, "rates": 1}},
            "training.rates",
            "unknown 'training.rates'; did you mean 'rate'?",
        ),
        (
            {"training": Training(1), "nested": {"training": {"epochs": True}}},
            "nested.training.epochs",
            "'nested.training.epochs' must be int, not True",
        ),
        ({"training": 3}, "training", "'training' must be a mapping of epochs, rate, not 3"),
    ],
)
def test_a_problem_of_a_nested_key_is_told_with_its_dotted_name(given, key, message):
    _, problems = check_arguments(learns, given)
    assert problems[-1] == (key, message)


def test_what_may_change_is_no_record():
    assert is_record(Training)
    assert is_record(Nested)
    assert not is_record(Changeable)
    assert not is_record(tuple)
    assert not is_record(Training(1))
