"""What is missing is found before a model loads, and said as loading says it."""

import re

import pytest
import torch
from hub_cache import cached, empty_cache

from vlbench.catalog.catalog import load_catalog
from vlbench.errors import WeightsError
from vlbench.run.model import resolve_model
from vlbench.run.options import Options
from vlbench.schema import parameters

CATALOG = load_catalog(())
LISTED = {n: spec for n, spec in CATALOG.models.items() if spec.adapter and not spec.unavailable}
# Drawn, trained by vlbench itself, or made from another model.
HERE = ("tiny-", "raw-pixels", "colour-histogram", "constant", "random-")
FETCHED = [name for name in LISTED if not name.startswith(HERE) and not name.endswith("-crops")]


def check(name, **given):
    """Ask the adapter of a shipped model for its weights, as a plan does."""
    model = resolve_model(CATALOG, name, Options(model_args=given))
    asked = parameters(model.adapter.require_weights)
    values = {key: one.default for key, one in parameters(model.adapter).items()} | model.arguments
    model.adapter.require_weights(**{key: values[key] for key in asked})
    return model


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return empty_cache(monkeypatch, tmp_path / "hub")


def load(name):
    model = resolve_model(CATALOG, name, Options())
    model.adapter(device=torch.device("cpu"), **model.arguments)


def missed(ask, name):
    """Return what is said of the weights of a model that are missing."""
    with pytest.raises(WeightsError) as told:
        ask(name)
    return str(told.value)


def test_every_shipped_model_is_missed_offline_in_the_words_of_loading():
    assert len(FETCHED) > 40
    told = {name: missed(check, name) for name in FETCHED}
    assert told == {name: missed(load, name) for name in FETCHED}


def test_the_models_of_vlbench_are_here():
    for name in LISTED:
        if name.startswith("tiny-") and not name.endswith("-crops"):
            check(name)


def is_fetched_by_hand(name):
    weights = LISTED[name].weights
    return " by hand" in weights and "or by hand" not in weights


def test_where_the_hub_can_be_reached_what_it_has_is_not_missing(monkeypatch):
    monkeypatch.setattr("vlbench.system.hub.is_offline", lambda: False)
    monkeypatch.setattr("vlbench.system.hub.reachable", lambda: True)
    for name in FETCHED:
        if is_fetched_by_hand(name):
            assert re.search("no file of (weights|word vectors) at", missed(check, name))
        else:
            check(name)


CACHED = [
    ("clip-rn50", "timm/resnet50_clip.openai", ["open_clip_model.safetensors"]),
    ("bit-m-r50x1", "timm/resnetv2_50x1_bit.goog_in21k", ["model.safetensors"]),
    ("siglip2-base", "google/siglip2-base-patch16-224", ["config.json", "model.safetensors"]),
    ("gemma3-4b", "google/gemma-3-4b-it", ["config.json", "model.safetensors.index.json"]),
]


@pytest.mark.parametrize(("name", "repository", "files"), CACHED)
def test_what_the_cache_holds_is_not_missing(name, repository, files, nothing_here, tmp_path):
    for file in files:
        (tmp_path / "copy").mkdir(exist_ok=True)
        (tmp_path / "copy" / file).touch()
    cached(nothing_here, repository, tmp_path / "copy")
    check(name)
    assert not list((tmp_path / "torch").glob("*"))


def test_a_configuration_without_weights_is_not_enough_but_for_random_ones(nothing_here, tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "config.json").touch()
    cached(nothing_here, "google/siglip2-base-patch16-224", tmp_path / "copy")
    check("siglip2-base", weights="random")
    with pytest.raises(WeightsError, match="siglip2-base"):
        check("siglip2-base")


@pytest.mark.parametrize(
    "name", ["rn50", "clip-rn50", "bit-m-r50x1", "faster-rcnn-r50", "detr-r50"]
)
def test_random_weights_and_files_that_are_there_are_not_missing(name, tmp_path):
    (tmp_path / "own.pt").touch()
    check(name, weights="random")
    check(name, weights=str(tmp_path / "own.pt"))


def test_a_file_in_the_cache_of_torch_is_not_missing(tmp_path):
    file = tmp_path / "torch" / "hub" / "checkpoints" / "resnet50-0676ba61.pth"
    file.parent.mkdir(parents=True)
    file.touch()
    check("rn50")
