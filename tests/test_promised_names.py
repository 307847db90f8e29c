"""What others' files may name is found under its old name, however the code has moved.

promised_names.json was copied from commit 8f8fc60: the names of docs/plugins.md and of the YAML
shipped then, the probes and the classes of adapters. Three names of 0.1 in `metrics.statistics`
were taken out, and nothing else is; a name that moves gets a line in `vlbench.moved`.
"""

import json
from importlib import import_module
from pathlib import Path

import pytest
from sources import make_source

from vlbench import cli, moved
from vlbench.catalog.listed_capabilities import shipped_probes
from vlbench.code import identity
from vlbench.code.functions import find_object

ROOT = Path(__file__).resolve().parents[1]
PROMISED = json.loads(Path(__file__).with_name("promised_names.json").read_text("utf-8"))

pytestmark = pytest.mark.filterwarnings("ignore:.* is now .*; the old name goes:FutureWarning")


def lost_names(names, find):
    lost = []
    for name in names:
        try:
            find(name)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is listed
            lost.append(f"{name}: {error!r}")
    return lost


def find_import(name):
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def find_adapter(name):
    return find_object(lambda: "models.yaml", name, [ROOT / "model_adapters"])


def test_every_promised_name_can_be_imported():
    assert len(PROMISED["imports"]) == 87
    assert lost_names(PROMISED["imports"], find_import) == []
    assert lost_names(["vlbench.results:Scores"], find_import) != []


def test_every_adapter_class_is_found_by_a_models_yaml():
    assert len(PROMISED["adapters"]) == 40
    assert lost_names(PROMISED["adapters"], find_adapter) == []


def test_every_probe_is_found_by_its_bare_name():
    assert len(PROMISED["probes"]) == 20
    assert set(PROMISED["probes"]) <= set(shipped_probes())


MOVES = {
    "vlbench.gone.ranking:select": "vlbench.metrics.ranking:choose",
    "gone_cnn:GoneCnn": "timm_cnn:TimmCnn",
}


@pytest.fixture
def moves(monkeypatch):
    """Some names have moved: one of a package that is gone, and an adapter."""
    monkeypatch.setattr(moved, "MOVED", MOVES)


@pytest.mark.usefixtures("moves")
def test_a_moved_name_works_and_says_where_it_is_now():
    message = r"vlbench\.gone\.ranking\.select is now vlbench\.metrics\.ranking\.choose; the old"
    with pytest.warns(FutureWarning, match=message):
        assert find_import("vlbench.gone.ranking:select").__name__ == "choose"
    with pytest.warns(FutureWarning, match="gone_cnn.GoneCnn is now timm_cnn.TimmCnn"):
        assert find_adapter("gone_cnn:GoneCnn").__name__ == "TimmCnn"


@pytest.mark.usefixtures("moves")
def test_what_a_gone_module_never_had_is_no_attribute():
    with pytest.raises(AttributeError, match=r"'vlbench\.gone\.ranking' has no attribute 'best'"):
        find_import("vlbench.gone.ranking:best")


@pytest.mark.usefixtures("moves")
def test_code_that_imports_an_old_name_depends_on_the_file_of_the_new_one(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from vlbench.gone.ranking import select\n")
    reached, _ = identity._walk([(file, tmp_path)], set())
    assert ROOT / "vlbench" / "metrics" / "ranking.py" in reached


def test_the_readmes_option_for_regions_is_known(tmp_path, capsys):
    source = make_source(tmp_path / "ours")
    words = ["--model", "tiny-clip", "--model-args", "encode_by=grid", "--include-path", source]
    words += ["--tasks", "patch_retrieval_regions_scenes", "--dry-run"]
    assert cli.main([str(word) for word in words]) == 0
    assert "tiny-clip[encode_by=grid]" in capsys.readouterr().out
