"""What model_adapters/models.yaml says of weights that are fetched from a hub, and of costs."""

import logging
from pathlib import Path

import open_clip
import pytest
import timm
import torch
import yaml

from vlbench.catalog.catalog import load_catalog
from vlbench.code.functions import load_object
from vlbench.errors import UnknownNameError
from vlbench.run.model import resolve_model
from vlbench.run.options import Options

MODELS = yaml.safe_load(
    (Path(__file__).parents[2] / "model_adapters" / "models.yaml").read_text("utf-8")
)
BENCHMARKS = [Path(__file__).parents[2] / "benchmarks"]
BUILT, counted = load_object("flops:BUILT", BENCHMARKS), load_object("flops:counted", BENCHMARKS)


def from_a_hub(line):
    return "on the hub" in line.get("weights", "")


def is_pinned(line):
    return len(line["params"].get("revision", "")) == 40


def says_why_not(line):
    return line.get("x-revision", "").startswith("main, because ")


def test_weights_from_a_hub_have_a_revision_or_say_why_not():
    lines = {name: line for name, line in MODELS.items() if from_a_hub(line)}
    assert len(lines) > 30
    assert [name for name, line in lines.items() if is_pinned(line) == says_why_not(line)] == []


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
    assert spec.version == 3


COSTS = {name: spec.cost for name, spec in load_catalog().models.items() if spec.cost}


def test_every_cost_is_one_that_the_benchmark_counts():
    assert COSTS.keys() == BUILT.keys()


@pytest.mark.nightly
@pytest.mark.parametrize("name", COSTS)
def test_costs_are_what_the_library_builds(name):
    logging.disable(logging.WARNING)  # open_clip tells that it loads no weights
    try:
        found = counted(BUILT[name])
    finally:
        logging.disable(logging.NOTSET)
    assert found.parameters == MODELS[name]["parameters"]
    assert found.flops == pytest.approx(COSTS[name]["flops"], rel=2e-3)


# timm's own networks: without the token that masks patches in training, of whole towers alone.
NETWORKS_OF_TIMM = [
    ("dinov2-small", "vit_small_patch14_dinov2", {"dynamic_img_size": True}),
    ("dinov3-small", "vit_small_patch16_dinov3", {}),
    ("siglip2-base", "vit_base_patch16_siglip_224", {}),
    ("clip-vit-b-32", "vit_base_patch32_clip_quickgelu_224", {"num_classes": 512}),
    ("clip-rn50", "resnet50_clip", {}),
]


@pytest.mark.parametrize(("name", "network", "parts"), NETWORKS_OF_TIMM)
def test_another_implementation_takes_as_many_operations(name, network, parts):
    def build():
        model = timm.create_model(network, **parts)
        return model, lambda: model(torch.empty(1, 3, 224, 224))

    assert counted(build).flops == pytest.approx(COSTS[name]["flops"], rel=1e-2)


# open_clip's own configurations, on the meta device; two lines with other weights have these too.
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["clip-rn101", "clip-rn50x4", "clip-vit-b-16", "clip-vit-l-14"])
def test_parameters_of_clip_are_what_open_clip_builds(name):
    config = open_clip.get_model_config(MODELS[name]["params"]["architecture"])
    with torch.device("meta"):
        model = open_clip.CLIP(**config)
    assert sum(one.numel() for one in model.parameters()) == MODELS[name]["parameters"]
