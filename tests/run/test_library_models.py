"""Models named by their library, from the plan to the row."""

import json

import pytest
from hub_cache import COMMIT, cached, empty_cache
from runs import board, evaluate, planned
from tiny_vision import write_vision

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.check import check_model
from vlbench.commands.show import show_thing
from vlbench.errors import SpecError, UnknownNameError, WeightsError
from vlbench.run.options import Options


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_vision(tmp_path_factory.mktemp("vision") / "little-vit", "vit")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    return empty_cache(monkeypatch, tmp_path / "hub")


def test_a_row_keeps_the_name_and_records_the_commit(source, cache, folder, tmp_path):
    cached(cache, "org/vit", folder)
    boards = tmp_path / "boards"
    (result,) = evaluate(source, model="hf:org/vit", output=boards)
    assert (result.status, result.model) == ("ok", "hf:org/vit")
    row = board(boards)["rows"][0]
    assert row["model"] == "hf:org/vit"
    assert row["provenance"]["params"]["revision"] == COMMIT
    assert row["provenance"]["params"]["architecture"] == "org/vit"
    (kept,) = planned(
        ["hf:org/vit"], ["few_shot_colours"], include_path=[source], output=boards
    ).jobs
    assert kept.status == "kept"


def test_a_branch_that_moved_is_run_again(source, cache, folder, tmp_path):
    cached(cache, "org/vit", folder)
    boards = tmp_path / "boards"
    evaluate(source, model="hf:org/vit", output=boards)
    cached(cache, "org/vit", folder, commit="f" * 40)
    options = {"include_path": [source], "output": boards}
    (moved,) = planned(["hf:org/vit"], ["few_shot_colours"], **options).jobs
    (pinned,) = planned([f"hf:org/vit@{COMMIT}"], ["few_shot_colours"], **options).jobs
    assert moved.status == pinned.status == "run"
    assert moved.model.arguments["revision"] == "f" * 40


def test_no_local_path_enters_a_row(source, folder, tmp_path):
    (result,) = evaluate(source, model=f"hf:{folder}", output=tmp_path / "boards")
    assert result.model == "hf:little-vit"
    assert str(folder).rpartition("/")[0] not in json.dumps(board(tmp_path / "boards"))


def test_arguments_are_overridden_as_ever(source, folder):
    (result,) = evaluate(source, model=f"hf:{folder}", model_args={"pool": "mean", "layer": 1})
    assert result.model == "hf:little-vit[layer=1,pool=mean]"
    with pytest.raises(SpecError, match="'poll' is unknown; did you mean 'pool'"):
        evaluate(source, model=f"hf:{folder}", model_args={"poll": "mean"})


def test_wrong_names_are_told_together_before_anything_runs(source):
    with pytest.raises(UnknownNameError) as caught:
        evaluate(source, model=["timm:resnet188", "torchvision:resnet51", "mean-color"])
    assert str(caught.value).count("did you mean") == 3


@pytest.mark.usefixtures("cache")
def test_an_absent_configuration_is_told_with_other_problems(source):
    message = r"org/gone, revision main, [^\n]+\n.*did you mean mean-col"
    with pytest.raises(SpecError, match=message):
        evaluate(source, model=["hf:org/gone", "mean-color"])


@pytest.mark.usefixtures("cache")
def test_an_absent_configuration_stops_the_plan(source):
    with pytest.raises(WeightsError, match="org/gone, revision main, cannot be downloaded"):
        evaluate(source, model="hf:org/gone")


def test_a_companion_may_be_named_by_its_library(source):
    listing = source / "model_adapters" / "models.yaml"
    line = 'cut: {adapter: "crops:Crops", params: {encoder: "torchvision:resnet18/random"}}\n'
    listing.write_text(listing.read_text() + line)
    plan = planned(["cut"], ["few_shot_colours"], include_path=[source])
    (encoder,) = plan.jobs[0].model.companions.values()
    assert encoder.name == "torchvision:resnet18/random"


def test_a_shipped_adapter_is_named_the_same_way_from_any_source(source):
    listing = source / "model_adapters" / "models.yaml"
    params = "{architecture: test_resnet.r160_in1k, weights: random, resize: 32}"
    line = f'ours: {{adapter: "timm_cnn:TimmCnn", params: {params}}}\n'
    listing.write_text(listing.read_text() + line)
    (result,) = evaluate(source, model="ours")
    assert result.status == "ok"


def test_check_reads_a_name_of_a_library(folder):
    findings = check_model(f"hf:{folder}", Options(device="cpu"))
    assert {one.capability for one in findings} == {"ImageEncoder", "LayerEncoder", "RegionEncoder"}
    assert [one for one in findings if not one.ok] == []


def test_show_says_what_a_name_stands_for(tmp_path):
    shown = show_thing(load_catalog(), "timm:resnet18.a1_in1k", tmp_path)
    assert shown["adapter"] == "timm_vision:TimmVision"
    assert shown["params"] == {"architecture": "resnet18.a1_in1k"}
    assert shown["file"].endswith("model_adapters/timm_vision.py")
