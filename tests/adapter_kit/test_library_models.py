import huggingface_hub
import pytest
import torch
import torchvision
from hub_cache import COMMIT, cached, empty_cache
from huggingface_hub import errors
from PIL import Image
from torchvision import models
from torchvision.models import ResNet18_Weights

from vlbench.adapter_kit import library_models
from vlbench.adapter_kit.images import normalise, resizing
from vlbench.adapter_kit.library_models import (
    hub_file,
    hub_folder,
    normaliser_of,
    open_torchvision,
    published_tags,
    require_open_clip,
    require_open_clip_tag,
    require_timm,
    require_torchvision,
    view_of_weights,
)
from vlbench.errors import UnknownNameError, WeightsError


@pytest.mark.parametrize("name", ["resnet18", "resnet18.a1_in1k"])
def test_what_timm_has_is_known(name):
    require_timm(name)


@pytest.mark.parametrize(
    ("name", "near"), [("resnet188", "resnet18"), ("resnet18.a1_in2k", "resnet18.a1_in1k")]
)
def test_what_timm_lacks_gets_the_nearest_names(name, near):
    message = rf"of timm is named '{name}'; did you mean .*{near}"
    with pytest.raises(UnknownNameError, match=message):
        require_timm(name)


def test_tags_of_torchvision_are_its_own():
    assert [tag.name for tag in require_torchvision("resnet18")] == ["IMAGENET1K_V1"]
    require_torchvision("resnet18", "random")
    with pytest.raises(UnknownNameError, match="tag of resnet18 is named 'IMAGENET1K_V3'; did you"):
        require_torchvision("resnet18", "IMAGENET1K_V3")


def test_what_open_clip_lacks_gets_the_nearest_names():
    require_open_clip("ViT-B-16")
    require_open_clip_tag("ViT-B-16", "openai")
    with pytest.raises(UnknownNameError, match="named 'ViT-B16'; did you mean ViT-B-16"):
        require_open_clip("ViT-B16")
    with pytest.raises(UnknownNameError, match="tag of ViT-B-16 is named 'opennai'; did you mean"):
        require_open_clip_tag("ViT-B-16", "opennai")
    with pytest.raises(UnknownNameError, match=r"needs a tag, ViT-B-16/TAG: .*openai.*, random$"):
        require_open_clip_tag("ViT-B-16", "")


TAG = ResNet18_Weights.IMAGENET1K_V1


@pytest.fixture
def torch_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


TRANSFORMS = {
    repr(tag.transforms()): tag
    for name in models.list_models(module=models)
    for tag in models.get_model_weights(name)
}


@pytest.mark.parametrize("tag", TRANSFORMS.values(), ids=str)
def test_pixels_of_a_tag_are_what_its_own_transform_gives(tag):
    photo = Image.effect_noise((64, 48), 80).convert("RGB")
    pixels = resizing(**view_of_weights(tag, None, None, None))(photo)
    found = normalise(pixels, *normaliser_of(tag).tolist())
    torch.testing.assert_close(found, tag.transforms()(photo))


SETTINGS = [
    (None, (None, None, None), (256, 256, "bicubic")),
    (TAG, (None, None, None), (256, 224, "bilinear")),
    (TAG, (256, 256, None), (256, 256, "bilinear")),
    (TAG, (128, None, "nearest"), (128, 128, "nearest")),
]


@pytest.mark.parametrize(("tag", "given", "expected"), SETTINGS)
def test_what_a_task_says_of_its_images_wins(tag, given, expected):
    assert tuple(view_of_weights(tag, *given).values()) == expected


def test_an_unknown_architecture_names_the_nearest():
    expected = "no architecture of torchvision is named 'resnet5'; did you mean resnet50"
    with pytest.raises(UnknownNameError, match=expected):
        published_tags("resnet5", iter(["resnet50", "vgg11"]), "architecture")


def test_options_reach_the_model():
    model = open_torchvision("squeezenet1_1", None, 0, num_classes=7)
    assert model.classifier[1].out_channels == 7


def test_downloaded_weights_are_found_offline(torch_cache):
    torch.manual_seed(5)
    state = torchvision.models.resnet18().state_dict()
    torch.save(state, torch_cache / "resnet18-f37072fd.pth")
    found = open_torchvision("resnet18", TAG, 0).state_dict()
    assert all(torch.equal(found[key], state[key]) for key in state)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"<html>"])
def test_a_broken_file_in_the_cache_is_named(torch_cache, content):
    (torch_cache / "resnet18-f37072fd.pth").write_bytes(content)
    with pytest.raises(WeightsError, match=r"/resnet18-f37072fd\.pth cannot be read as weights: "):
        open_torchvision("resnet18", TAG, 0)


@pytest.mark.usefixtures("torch_cache")
def test_offline_names_the_download_and_the_way_around_it():
    message = r"weights ResNet18_\S+ cannot .*: this run is offline; .* --model-args weights=PATH$"
    with pytest.raises(WeightsError, match=message):
        open_torchvision("resnet18", TAG, 0)


@pytest.mark.usefixtures("torch_cache")
def test_a_failed_download_is_one_error(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(TAG.value, "url", "file:///x")
    with pytest.raises(WeightsError, match=r"cannot be downloaded from file:///x: .*=PATH"):
        open_torchvision("resnet18", TAG, 0)


LOCAL = "--model hf:./FOLDER"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    return empty_cache(monkeypatch, tmp_path / "hub")


@pytest.fixture
def repository(cache, tmp_path):
    (tmp_path / "files").mkdir()
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / "files" / name).write_text("{}")
    return cached(cache, "org/name", tmp_path / "files")


def test_a_cached_file_lies_in_the_folder_of_its_commit(repository):
    assert hub_file("org/name", "config.json", "main", LOCAL) == repository / "config.json"
    assert repository.name == COMMIT


def test_a_commit_is_a_revision_too(repository):
    assert hub_file("org/name", "config.json", COMMIT, LOCAL).parent == repository


def test_a_cached_folder_is_found_by_its_revision(repository):
    assert hub_folder("org/name", ["*.json"], "main", LOCAL) == repository


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("ask", [hub_file, hub_folder])
def test_offline_the_local_copy_is_named(ask):
    wanted = "config.json" if ask is hub_file else ["*.json"]
    message = (
        r"^org/gone, revision v2, cannot be downloaded from the hub: this run is offline; "
        r"give a local copy with --model hf:\./FOLDER$"
    )
    with pytest.raises(WeightsError, match=message):
        ask("org/gone", wanted, "v2", LOCAL)


@pytest.mark.usefixtures("cache")
def test_a_name_that_no_repository_can_have_is_refused():
    with pytest.raises(UnknownNameError, match="has no name on the hub:"):
        hub_file("a b/c", "config.json", "main", LOCAL)


REFUSALS = {
    errors.RepositoryNotFoundError: (
        UnknownNameError,
        "the hub has no repository of this name, or HF_TOKEN gives no access to it",
    ),
    errors.RevisionNotFoundError: (UnknownNameError, "was not found: no such thing"),
    errors.RemoteEntryNotFoundError: (UnknownNameError, "was not found: no such thing"),
    errors.GatedRepoError: (
        WeightsError,
        "is gated: accept the terms .* and set HF_TOKEN; or give",
    ),
    ConnectionError: (
        WeightsError,
        "cannot be downloaded from the hub: ConnectionError: no such thing; give a",
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_the_hub_answers_is_said(kind, monkeypatch):
    def refuse(*_, **__):
        # Made without a response of the library that asks, which depends on the version.
        answer = kind.__new__(kind)
        answer.args = ("no such thing",)
        raise answer

    monkeypatch.setattr(library_models, "hub_obstacle", str)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    error, message = REFUSALS[kind]
    with pytest.raises(error, match=message):
        hub_file("org/name", "config.json", "main", LOCAL)
