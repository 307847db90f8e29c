from dataclasses import replace

import pytest

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.listed_capabilities import capabilities_of, needs_of, ways_to_encode_regions

ADAPTER = """
from torch import nn
from vlbench.adapter_kit.layers import LayersOfModel
from vlbench.engine import Engine
class Own:
    def encode_texts(self, texts): ...
    def sing(self, words): ...
class Heir(Own):
    def listen(self): ...
class Deep(LayersOfModel):
    def preprocess(self, image): ...
    def encode_images(self, pixels): ...
class Far(nn.Module):
    def sing(self, words): ...
class Lost(Engine):
    def sing(self, words): ...
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "model_adapters").mkdir()
    (tmp_path / "model_adapters" / "own.py").write_text(ADAPTER)
    (tmp_path / "singing.py").write_text(
        "from typing import Protocol\nclass Singer(Protocol):\n    def sing(self, words): ...\n"
    )
    (tmp_path / "model_adapters" / "models.yaml").write_text(
        'own: {adapter: "own:Own", without: [TextEncoder]}\nheir: {adapter: "own:Heir"}\n'
        'deep: {adapter: "own:Deep"}\nmodule: {adapter: "own:Far"}\n'
        'lost: {adapter: "own:Lost"}\n'
        'far: {adapter: "no.such.module:Thing"}\nboth: {adapter: "own:Own"}\n'
    )
    return load_catalog([tmp_path]).models


def test_a_models_own_capabilities_and_those_of_its_source_are_known(source):
    assert capabilities_of(source["both"]) == ["TextEncoder", "Singer"]


def test_what_a_model_is_said_to_be_without_is_left_out(source):
    assert capabilities_of(source["own"]) == ["Singer"]


def test_an_adapter_whose_text_does_not_tell_has_unknown_capabilities(source):
    assert (capabilities_of(source["module"]), capabilities_of(source["far"])) == (None, None)
    assert capabilities_of(source["lost"]) is None


def test_an_adapter_has_the_methods_of_its_bases_in_its_file_and_in_vlbench(source):
    assert capabilities_of(source["heir"]) == ["TextEncoder", "Singer"]
    assert capabilities_of(source["deep"]) == ["ImageEncoder", "LayerEncoder"]


PROBE = """
def look(model: "ImageEncoder | Detector", data, engine): ...
def unsaid(model, data, engine): ...
"""


NEEDS = [
    ("few_shot", "ImageEncoder"),
    ("noun_count", "ImageTextScorer"),
    ("noun_count:noun_count", "ImageTextScorer"),
    (
        "vlbench.probes.vsep.zero_shot_alignment:zero_shot_alignment_regions",
        "Detector | RegionEncoder",
    ),
    ('object_label_alignment"\nunder_test: "regions', "Detector | RegionEncoder"),
    ('object_label_alignment"\nunder_test: "boxen', None),
    ("looking:look", "ImageEncoder | Detector"),
    ("looking:unsaid", None),
    ("no.such:probe", None),
]


@pytest.mark.parametrize(("probe", "needs"), NEEDS)
def test_what_a_task_needs_is_what_its_probe_says(tmp_path, probe, needs):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "looking.py").write_text(PROBE)
    (tmp_path / "tasks" / "ours.yaml").write_text(
        f'version: 1\nprobe: "{probe}"\ndata: {{loader: "a:b"}}\nprimary: {{metric: accuracy}}\n'
    )
    assert needs_of(load_catalog([tmp_path]).tasks["ours"]) == needs


def test_what_encodes_images_may_encode_regions_by_crops_and_with_a_grid_by_that(source):
    models = load_catalog().models
    ways = {name: ways_to_encode_regions(models[name]) for name in ("raw-pixels", "tiny-clip")}
    assert ways == {"raw-pixels": ["crops"], "tiny-clip": ["crops", "grid"]}
    assert [ways_to_encode_regions(m) for m in (models["detr-r50"], source["heir"])] == [[], []]
    withheld = replace(models["raw-pixels"], without=["RegionEncoder"])
    assert ways_to_encode_regions(withheld) == []
