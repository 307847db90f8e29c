"""What model_adapters/models.yaml says of weights that are fetched from a hub."""

from pathlib import Path

import pytest
import yaml

from vlbench.catalog.catalog import load_catalog
from vlbench.errors import UnknownNameError
from vlbench.planning.models import resolve_model
from vlbench.planning.options import Options

MODELS = yaml.safe_load(
    (Path(__file__).parents[2] / "model_adapters" / "models.yaml").read_text("utf-8")
)


def from_a_hub(line):
    return "on the hub" in line.get("weights", "")


@pytest.mark.parametrize("name", [name for name, line in MODELS.items() if from_a_hub(line)])
def test_weights_from_a_hub_have_a_revision_or_say_why_not(name):
    line = MODELS[name]
    pinned = len(line["params"].get("revision", "")) == 40
    assert pinned != line.get("x-revision", "").startswith("main, because ")


def test_the_model_of_the_grounding_references_says_where_its_weights_are():
    catalog = load_catalog()
    assert catalog.model("visualbert-flickr30k").regions == {"kind": "butd-adaptive", "width": 2048}
    with pytest.raises(UnknownNameError, match=r"is unavailable: its authors pre-trained it on"):
        resolve_model(catalog, "visualbert-flickr30k", Options())


@pytest.mark.parametrize("task", ["imagenet", "head_imagenet", "cifar10"])
@pytest.mark.parametrize(
    ("model", "asked"), [("rn50", "bilinear"), ("bit-m-r50x1", "bilinear"), ("clip-rn50", None)]
)
def test_photographs_are_resized_for_attacks_as_by_the_authors(task, model, asked):
    catalog = load_catalog()
    spec = catalog.tasks[f"robustness_{task}"]
    resolved = resolve_model(catalog, model, Options()).for_task(spec)
    assert resolved.arguments.get("interpolation") == asked
    assert spec.version == 2
