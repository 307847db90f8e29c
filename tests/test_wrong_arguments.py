"""Every function of `import vlbench`, and every method of what it returns, given wrong arguments.

The functions, methods, arguments and options are those that signatures name.
"""

import inspect
import traceback
import typing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vlbench
from vlbench import api
from vlbench.data.gate import IMAGES, RowOptions, Rows, columns_of, data_of_rows
from vlbench.data.images import image_column
from vlbench.errors import DataError, SpecError, VlbenchError
from vlbench.run.options import Keywords

SURROGATE = "a \ud800"
WRONG = {
    "none": None,
    "true": True,
    "zero": 0,
    "negative": -1,
    "huge": 10**400,
    "nan": float("nan"),
    "empty": "",
    "unknown": "no such",
    "surrogate": SURROGATE,
    "null": "a\0b",
    "long": "a" * 100_000,
    "path": Path("/no/such/path"),
    "bytes": b"ab",
    "object": object(),
    "class": dict,
    "list": [],
    "nones": [None],
    "nans": [float("nan")],
    "surrogates": [SURROGATE],
    "numbers": [1, 2],
    "nested": [[["a"]]],
    "array": np.zeros((2, 0)),
    "objects": np.array([object()], object),
    "mapping": {},
    "of_number": {1: 2},
    "of_surrogate": {SURROGATE: SURROGATE},
}
# The options of runs are read in one place, so doors other than `evaluate` get only these values.
FEW = {"none", "nan", "surrogate", "long", "object", "nones", "array", "of_number"}
OPTIONS_OF_RUNS = {*typing.get_type_hints(Keywords)}
# A right value of each argument, of those that need one.
RIGHT = {
    "list_tasks": {},
    "list_models": {},
    "load_model": {"model": "raw-pixels"},
    "evaluate": {"model": "raw-pixels", "tasks": "few_shot_digits", "limit": 40},
    "frame": {"results": []},
    "features": {"model": "raw-pixels", "source": [np.zeros((4, 4, 3), np.uint8)] * 2},
    # A task that does not exist: one that does takes seconds, and `evaluate` asks the same options.
    "rdm": {"model": "raw-pixels", "task": "nothing"},
    "probe": {"name": "knn", "features": np.eye(4), "labels": [*"abab"], "k": [1]},
    "load": {"folder": "results"},
    "compare": {"a": "raw-pixels", "b": "constant", "task": "few_shot_digits"},
    "Boards.items": {"task": "few_shot_digits", "model": "raw-pixels"},
    "Boards.view_items": {"task": "few_shot_digits", "model": "raw-pixels"},
    "ItemViewer.save": {},
}
# The functions in which Python checks a signature.
SIGNATURE = {"wrong_error", "of_door", "read_and_call", "bind", "_bind"}
KEPT = ("evaluate", "features", "load_model", "rdm")


def public(kind):
    """Return the methods of a class that a user calls, which vlbench defines."""
    named = vars(kind).items()
    return [n for n, method in named if n[0] != "_" and inspect.isfunction(method)]


FUNCTIONS = {name: getattr(vlbench, name) for name in vlbench.__all__}
FUNCTIONS = {name: one for name, one in FUNCTIONS.items() if inspect.isfunction(one)}
RETURNED = [
    kind
    for kind in vars(api).values()
    if isinstance(kind, type) and kind.__module__ == api.__name__
]
METHODS = {f"{kind.__name__}.{name}": kind for kind in RETURNED for name in public(kind)}


def parameters(function):
    """Return the names of arguments; `**options` are those of Keywords."""
    known = inspect.signature(function).parameters
    names = [name for name, one in known.items() if one.kind != one.VAR_KEYWORD and name != "self"]
    has_options = "Keywords" in str([one.annotation for one in known.values()])
    return names + [name for name in typing.get_type_hints(Keywords) if has_options]


CASES = [(door, name) for door, function in FUNCTIONS.items() for name in parameters(function)]
CASES += [
    (door, name)
    for door, kind in METHODS.items()
    for name in parameters(getattr(kind, door.partition(".")[2]))
]


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boards")
    vlbench.evaluate(
        "raw-pixels,constant", "few_shot_digits", output=folder, limit=40, progress=False
    )
    return folder


@pytest.fixture
def call(boards, tmp_path, monkeypatch):
    """Return a call of a door with its right arguments, except for those given."""
    monkeypatch.chdir(tmp_path)
    of_kind = {
        "Boards": lambda: vlbench.load(boards),
        "Results": lambda: vlbench.load(boards).rows,
        "ItemViewer": lambda: api.ItemViewer(b""),
    }

    def of_door(door, **given):
        kind, _, method = door.partition(".")
        function = getattr(of_kind[kind](), method) if method else FUNCTIONS[door]
        folders = {"load": {"folder": boards}, "compare": {"output": boards}}
        kept = {"cache_dir": boards / "cache"} if door in KEPT else {}
        return function(**{**RIGHT.get(door, {}), **folders.get(door, {}), **kept, **given})

    return of_door


def is_of_signature(error):
    """Return whether Python, and no code of a function, refused the arguments."""
    frames = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
    return isinstance(error, TypeError) and not frames - SIGNATURE


def wrong_error(work, *given, **named):
    """Return the error of a call, unless it is of vlbench or of a signature; empty if none."""
    try:
        work(*given, **named)
    except VlbenchError as error:
        return "" if str(error).strip() else "no message"
    except Exception as error:  # noqa: BLE001 - what is looked for
        return "" if is_of_signature(error) else f"{type(error).__name__}: {error!s:.80}"
    return ""


@pytest.mark.parametrize(("door", "name"), CASES)
def test_a_wrong_argument_raises_an_error_of_vlbench(call, door, name):
    is_few = door != "evaluate" and name in OPTIONS_OF_RUNS
    wrong = {
        shown: wrong_error(call, door, **{name: value})
        for shown, value in WRONG.items()
        if shown in FEW or not is_few
    }
    assert {shown: why for shown, why in wrong.items() if why} == {}


@pytest.mark.parametrize("door", [*FUNCTIONS, *METHODS])
def test_missing_and_surplus_arguments_raise_an_error_of_vlbench_or_the_signature(call, door):
    assert wrong_error(call, door, no_such=1) == ""
    if door in FUNCTIONS:
        assert wrong_error(FUNCTIONS[door]) == ""
        assert wrong_error(FUNCTIONS[door], *[None] * 30) == ""


def test_every_argument_that_is_right_here_is_right(call):
    assert {*RIGHT} <= {*FUNCTIONS, *METHODS}
    for door in ("list_tasks", "list_models", "load_model", "frame", "features", "probe"):
        call(door)


def test_a_probe_without_shots_says_which_argument_and_its_form():
    with pytest.raises(SpecError, match=r"few_shot: 'shots' is missing"):
        vlbench.probe("few_shot", np.eye(4), [*"abab"])


def test_a_text_with_a_lone_surrogate_is_named():
    with pytest.raises(SpecError, match=r"features: 'texts\[1\]' must be a text, not 'a \\ud800'"):
        vlbench.features("tiny-clip", texts=["a dog", SURROGATE], cache_dir=None)


OPTIONS = dict.fromkeys(RowOptions.__annotations__, "x")
KINDS = [kind for kind in columns_of(OPTIONS) if kind not in IMAGES]


@pytest.mark.parametrize("kind", KINDS)
def test_a_lone_surrogate_in_a_cell_names_row_and_column(kind):
    images = image_column([Image.new("RGB", (4, 4), (i, 0, 0)) for i in range(2)], ["one", "two"])
    cells = {"x": ["sound", SURROGATE], "image": ["1.png", "2.png"]}
    rows = Rows("test", cells, lambda _: images, lambda row: f"test.csv, row {row + 1}")
    options = {"label": "", kind: "x"}
    why = "the class" if kind == "label" else "test.csv, row 2: the column x has"
    with pytest.raises(DataError, match=rf"{why} 'a \\ud800'"):
        data_of_rows(options, columns_of(options), {"test": lambda: rows})
