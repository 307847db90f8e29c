import functools
import importlib.metadata
import sys
import types

import pytest
import torch
from sources import write

from vlbench.code.functions import load_object
from vlbench.code.identity import _version, code_digest, library_versions, reached, source_digest
from vlbench.code.plugins import load_file
from vlbench.metrics import ranking
from vlbench.probes.generalization import few_shot

ADAPTER = (
    "import network\n\n\nclass Adapter:\n    def run(self):\n        return network.double(1)\n"
)
CHECKING = "from typing import TYPE_CHECKING\n\n"
NETWORK = "def double(x):\n    return 2 * x\n"


def written(folder, adapter=ADAPTER, network=NETWORK):
    """Return the class of an adapter file that imports a file beside it."""
    write(folder / "network.py", network)
    return load_file(write(folder / "adapter.py", adapter)).Adapter


def digest_of(folder, **texts):
    return code_digest(written(folder, **texts))


def names(thing):
    files, _ = reached(thing)
    return {file.name for file in files}


def test_the_same_code_in_another_folder_has_one_digest(tmp_path):
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("adapter", ADAPTER.replace("double(1)", "double(2)")),
        ("network", NETWORK.replace("2 * x", "3 * x")),
        ("network", "import deeper\n" + NETWORK),
    ],
)
def test_a_change_in_the_file_or_in_one_that_it_imports_changes_it(tmp_path, part, text):
    write(tmp_path / "b" / "deeper.py", "")
    assert digest_of(tmp_path / "a") != digest_of(tmp_path / "b", **{part: text})


@pytest.mark.parametrize(
    "text",
    [
        '"""Says something."""\n\n\n' + NETWORK,
        NETWORK.replace("    return", '    """Return twice x."""\n    return'),
        "# a comment\n" + NETWORK.replace("2 * x", "(2\n            * x)"),
    ],
)
def test_docstrings_comments_and_layout_do_not_count(tmp_path, text):
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b", network=text)


def test_a_text_that_is_no_docstring_counts(tmp_path):
    texts = [f"PROMPT = '{word}'\n" + NETWORK for word in ("a", "b")]
    assert digest_of(tmp_path / "a", network=texts[0]) != digest_of(
        tmp_path / "b", network=texts[1]
    )


@pytest.mark.parametrize(
    "statement",
    [
        "from network import double",
        "from . import network",
        "from .network import double",
        "import importlib\n\n\ndef late():\n    importlib.import_module('network')",
        "def late():\n    import network",
        "try:\n    import network\nexcept ImportError:\n    network = None",
        f"{CHECKING}if TYPE_CHECKING:\n    import base\nelse:\n    import network",
        f"{CHECKING}if not TYPE_CHECKING:\n    import network",
    ],
)
def test_every_form_of_import_counts(tmp_path, statement):
    kind = written(tmp_path, adapter=f"{statement}\n\n\nclass Adapter: ...\n")
    assert "network.py" in names(kind)


def test_imports_for_type_checkers_do_not_count(tmp_path):
    text = f"{CHECKING}if TYPE_CHECKING:\n    import network\n"
    assert names(written(tmp_path, adapter=text + "class Adapter: ...\n")) == {"adapter.py"}


def test_files_that_import_each_other_are_read_once_each(tmp_path):
    write(tmp_path / "network.py", "import adapter\n" + NETWORK)
    file = write(tmp_path / "adapter.py", "def f():\n    import network\n")
    assert names(load_file(file).f) == {"adapter.py", "network.py"}


def test_a_base_class_of_another_file_counts(tmp_path):
    write(tmp_path / "base.py", "class Base: ...\n")
    text = "from base import Base\n\n\nclass Adapter(Base): ...\n"
    assert "base.py" in names(written(tmp_path, adapter=text))


def test_a_package_counts_with_its_init(tmp_path):
    write(tmp_path / "layers" / "__init__.py", "SCALE = 2\n")
    write(tmp_path / "layers" / "linear.py", "")
    text = "from layers.linear import *\n\n\nclass Adapter: ...\n"
    assert names(written(tmp_path, adapter=text)) == {"adapter.py", "__init__.py", "linear.py"}


def test_a_module_on_the_path_that_is_not_installed_counts(tmp_path, monkeypatch):
    write(tmp_path / "lab" / "lab_networks.py", "")
    monkeypatch.syspath_prepend(tmp_path / "lab")
    text = "import lab_networks\n\n\nclass Adapter: ...\n"
    assert "lab_networks.py" in names(written(tmp_path, adapter=text))


def test_a_method_a_lambda_a_partial_and_an_instance_count_as_their_code(tmp_path):
    kind = written(tmp_path)
    things = [kind().run, kind(), functools.partial(kind.run), kind]
    assert len({code_digest(thing) for thing in things}) == 1


WRAPS = """from functools import wraps


def wrapped(function):
    @wraps(function)
    def run():
        return function()

    return run
"""


def test_a_function_that_a_decorator_wraps_counts_as_its_own_code(tmp_path):
    def digest(value):
        folder = tmp_path / str(value)
        write(folder / "wraps.py", WRAPS)
        text = f"from wraps import wrapped\n\n\n@wrapped\ndef probe():\n    return {value}\n"
        return code_digest(load_file(write(folder / "probe.py", text)).probe)

    assert digest(1) != digest(2)


def test_a_probe_reaches_its_metrics_and_the_engine_but_no_page_and_no_error():
    found = names(few_shot.few_shot)
    assert {"few_shot.py", "ranking.py", "intervals.py", "engine.py", "records.py"} <= found
    assert not {"cli.py", "bench.py", "tables.py", "errors.py", "progress.py"} & found


def test_a_formula_reaches_no_probe():
    assert names(ranking.choose) == {"ranking.py"}


def test_libraries_count_by_version(tmp_path, monkeypatch):
    text = "def f():\n    import scipy.sparse\n    import sklearn\n"
    function = load_file(write(tmp_path / "adapter.py", text)).f
    known = library_versions([function])
    assert {"scipy", "sklearn", "torch", "numpy", "PIL"} == set(known)
    assert known["sklearn"] == importlib.metadata.version("scikit-learn")
    before = code_digest(function)
    monkeypatch.setattr("vlbench.code.identity._version", lambda _: "0.0")
    assert code_digest(function) != before


@pytest.mark.parametrize("package", ["PIL", "sklearn", "yaml", "open_clip"])
def test_a_package_has_the_version_of_the_distribution_that_installs_it(package):
    distributions = importlib.metadata.packages_distributions()[package]
    assert _version(package) == importlib.metadata.version(distributions[0])


def test_a_class_of_a_library_counts_by_its_version_alone():
    files, libraries = reached(torch.nn.Linear)
    assert (files, libraries) == ({}, {"torch"})
    assert reached(torch.Tensor) == ({}, {"torch"})


def test_values_of_python_itself_reach_nothing():
    assert reached(["a list"]) == ({}, set())


def test_code_that_no_file_holds_is_unknown():
    space = {"__name__": "a_notebook"}
    exec("class Made: ...\ndef f(): ...\n", space)  # noqa: S102 - as a notebook does
    assert code_digest(space["Made"]) is None
    assert code_digest(space["f"]) is None


TYPED = "class Typed:\n    def run(self):\n        return 1\n"
IN_A_SCRIPT = "import dataclasses\n\n\n@dataclasses.dataclass\nclass Kept:\n    size: int\n"


def test_a_class_typed_after_a_script_is_not_that_of_the_script(tmp_path, monkeypatch):
    script = write(tmp_path / "script.py", IN_A_SCRIPT)
    main = types.ModuleType("__main__")
    main.__file__ = str(script)
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(compile(script.read_text(), script, "exec"), vars(main))  # noqa: S102 - as Python runs it
    exec(TYPED, vars(main))  # noqa: S102 - as a prompt runs what is typed
    assert code_digest(main.Kept) is not None
    assert code_digest(main.Typed) is None
    exec("class Only(Kept): size = 2\n", vars(main))  # noqa: S102 - it has no method
    assert code_digest(main.Only) is None


def test_a_broken_file_counts_byte_by_byte(tmp_path):
    text = "def f():\n    import broken\n"
    for name, broken in (("a", "def ("), ("b", "def ((")):
        write(tmp_path / name / "broken.py", broken)
    found = [load_file(write(tmp_path / name / "adapter.py", text)).f for name in ("a", "b")]
    assert code_digest(found[0]) != code_digest(found[1])


def test_an_edited_file_is_read_again(tmp_path):
    kind = written(tmp_path)
    before = code_digest(kind)
    write(tmp_path / "network.py", NETWORK.replace("2 * x", "33 * x"))
    assert code_digest(kind) != before


def test_two_files_that_exchange_their_content_change_it(tmp_path):
    text = "import network, other\n\n\nclass Adapter: ...\n"
    write(tmp_path / "other.py", "WIDTH = 7\n")
    before = digest_of(tmp_path, adapter=text)
    write(tmp_path / "other.py", NETWORK)
    assert digest_of(tmp_path, adapter=text, network="WIDTH = 7\n") != before


def test_the_source_of_an_adapter_is_its_own_files_not_those_of_vlbench(tmp_path):
    text = "from vlbench.metrics import ranking\n" + ADAPTER
    kind = written(tmp_path / "a", adapter=text)
    assert "ranking.py" in names(kind)
    plain = written(tmp_path / "b", adapter=text)
    assert source_digest(kind) == source_digest(plain)
    other = written(tmp_path / "c", adapter=text, network=NETWORK + "\n\nWIDTH = 7\n")
    assert source_digest(kind) != source_digest(other)


def test_nothing_is_imported_to_digest_code(tmp_path):
    text = "def f():\n    import never_imported\n"
    function = load_file(write(tmp_path / "adapter.py", text)).f
    write(tmp_path / "never_imported.py", "raise SystemExit\n")
    assert "never_imported.py" in names(function)
    assert "never_imported" not in sys.modules


def test_imports_that_are_not_installed_have_no_version(tmp_path):
    (tmp_path / "zz.py").write_text("def f():\n    import zz_nowhere\n")
    assert set(library_versions([load_object("zz:f", [tmp_path])])) == {"PIL", "numpy", "torch"}


def test_versions_of_several_files_are_put_together(tmp_path):
    (tmp_path / "zz.py").write_text("import PIL\ndef f(): ...\n")
    (tmp_path / "yy.py").write_text("import scipy\ndef f(): ...\n")
    things = [load_object(name, [tmp_path]) for name in ("zz:f", "yy:f")]
    assert set(library_versions(things)) == {"PIL", "numpy", "scipy", "torch"}


def test_a_version_does_not_depend_on_what_was_imported_before(tmp_path, monkeypatch):
    (tmp_path / "zz.py").write_text("def f():\n    import sklearn\n")
    function = load_object("zz:f", [tmp_path])
    monkeypatch.delitem(sys.modules, "sklearn", raising=False)
    assert "sklearn" in library_versions([function])
