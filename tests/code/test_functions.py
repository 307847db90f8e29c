import math
import pickle
import sys
from collections.abc import Mapping

import pytest

from vlbench.code.functions import find_object, load_object
from vlbench.code.plugins import load_file
from vlbench.errors import SpecError


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
    assert function.__module__.startswith("vlbench.code.plugins.")
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


@pytest.mark.parametrize("name", ["bright.py:fig", "../probes/bright.py:fig", "/x/bright.py:fig"])
def test_a_file_in_place_of_its_module_is_told_what_to_write(tmp_path, name):
    (tmp_path / "bright.py").write_text("fig = 1\n")
    told = "^task.yaml: '.*bright.py:fig' names a file; write 'bright:fig'$"
    with pytest.raises(SpecError, match=told):
        find_object(lambda: "task.yaml", name, [tmp_path], trusted=())
