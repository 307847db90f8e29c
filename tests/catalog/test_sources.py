import importlib.metadata

import pytest
from sources import make_source, write

from vlbench.catalog.sources import ENTRY_POINTS, capability_files, find_sources, shipped_source
from vlbench.errors import SpecError

PROTOCOL = (
    "from typing import Protocol\n\n\nclass Captioner(Protocol):\n    def caption(self): ...\n"
)


def test_the_shipped_source_comes_first_and_each_source_once(tmp_path):
    source = make_source(tmp_path / "ours")
    assert find_sources([source, source / ".." / "ours"]) == [shipped_source(), source]


def test_a_folder_with_neither_tasks_nor_adapters_is_no_source(tmp_path):
    with pytest.raises(SpecError, match=r"a source needs a folder tasks/ or model_adapters/"):
        find_sources([tmp_path])


def test_an_entry_point_that_is_no_package_is_named(monkeypatch):
    point = importlib.metadata.EntryPoint("theirs", "no_such_package", ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [point])
    with pytest.raises(SpecError, match="entry point 'theirs': 'no_such_package' is not a package"):
        find_sources()


def test_a_protocol_with_a_method_is_a_capability_wherever_a_source_keeps_it(tmp_path):
    files = [
        write(tmp_path / name, PROTOCOL)
        for name in ("capabilities.py", "probes/captions.py", "model_adapters/deep/er.py")
    ]
    assert capability_files(tmp_path) == {file: {"Captioner": {"caption"}} for file in files}


NO_CAPABILITY = [
    "class Captioner:\n    def caption(self): ...\n",
    "class Protocol: ...\nclass Named(Protocol):\n    name: str\n",
    "class Protocol(: broken",
]


@pytest.mark.parametrize("text", NO_CAPABILITY)
def test_other_files_define_no_capability(tmp_path, text):
    write(tmp_path / "probes" / "captions.py", text)
    assert capability_files(tmp_path) == {}


def test_vlbenchs_own_capabilities_are_found_as_text():
    ((file, names),) = capability_files(shipped_source()).items()
    assert file.name == "capabilities.py"
    assert {"ImageEncoder", "MaskedLanguageModel"} <= set(names)
    assert "DualEncoder" not in names


def test_an_entry_point_that_raises_is_named(tmp_path, monkeypatch):
    write(tmp_path / "zz_raises" / "__init__.py", "class Odd(Exception): ...\nraise Odd('why')\n")
    monkeypatch.syspath_prepend(tmp_path)
    point = importlib.metadata.EntryPoint("theirs", "zz_raises.inner", ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [point])
    with pytest.raises(SpecError, match=r"'theirs': 'zz_raises\.inner' is not a package: Odd: why"):
        find_sources()
