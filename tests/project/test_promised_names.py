"""What others' files may name stays where it is.

promised_names.json was copied from commit 8f8fc60: the names of docs/plugins.md and of the YAML
shipped then, the probes and the classes of adapters. Three names of 0.1 in `metrics.statistics`
were taken out, and nothing else is.
If a name moves, its old form works for one more release, with a warning.
"""

import json
from importlib import import_module
from pathlib import Path

from sources import make_source

from vlbench import cli
from vlbench.catalog.listed_capabilities import shipped_probes
from vlbench.code.functions import find_object

ROOT = Path(__file__).resolve().parents[2]
PROMISED = json.loads(Path(__file__).with_name("promised_names.json").read_text("utf-8"))


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


def test_the_readmes_option_for_regions_is_known(tmp_path, capsys):
    source = make_source(tmp_path / "ours")
    words = ["--model", "tiny-clip", "--model-args", "encode_by=grid", "--include-path", source]
    words += ["--tasks", "patch_retrieval_regions_scenes", "--dry-run"]
    assert cli.main([str(word) for word in words]) == 0
    assert "tiny-clip[encode_by=grid]" in capsys.readouterr().out
