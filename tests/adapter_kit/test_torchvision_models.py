import pytest
import torch
import torchvision
from PIL import Image
from torchvision import models
from torchvision.models import ResNet18_Weights

from vlbench.adapter_kit.images import normalise, resizing
from vlbench.adapter_kit.torchvision_models import (
    normaliser_of,
    open_torchvision,
    published_tags,
    seen_by,
    torchvision_models,
)
from vlbench.errors import UnknownNameError, WeightsError

TAG = ResNet18_Weights.IMAGENET1K_V1


@pytest.fixture
def torch_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def test_the_library_is_torchvisions():
    assert torchvision_models() is torchvision.models


def test_the_tags_are_torchvisions_own():
    tags = published_tags("resnet50", ["resnet50"], "architecture")
    assert [tag.name for tag in tags] == ["IMAGENET1K_V1", "IMAGENET1K_V2"]


TRANSFORMS = {
    repr(tag.transforms()): tag
    for name in models.list_models(module=models)
    for tag in models.get_model_weights(name)
}


@pytest.mark.parametrize("tag", TRANSFORMS.values(), ids=str)
def test_pixels_of_a_tag_are_what_its_own_transform_gives(tag):
    photo = Image.effect_noise((64, 48), 80).convert("RGB")
    pixels = resizing(**seen_by(tag, None, None, None))(photo)
    found = normalise(pixels, *normaliser_of(tag).tolist())
    torch.testing.assert_close(found, tag.transforms()(photo))


@pytest.mark.parametrize(
    ("tag", "given", "expected"),
    [
        (None, (None, None, None), (256, 256, "bicubic")),
        (TAG, (None, None, None), (256, 224, "bilinear")),
        (TAG, (256, 256, None), (256, 256, "bilinear")),
        (TAG, (128, None, "nearest"), (128, 128, "nearest")),
    ],
)
def test_what_a_task_says_of_its_images_wins(tag, given, expected):
    assert tuple(seen_by(tag, *given).values()) == expected


def test_an_unknown_architecture_names_the_nearest():
    expected = "no architecture of torchvision is named 'resnet5'; did you mean resnet50"
    with pytest.raises(UnknownNameError, match=expected):
        published_tags("resnet5", iter(["resnet50", "vgg11"]), "architecture")


def test_random_weights_obey_their_seed_and_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    first, same, other = (
        open_torchvision("squeezenet1_1", None, seed).state_dict()["features.0.weight"]
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)
    assert torch.equal(torch.get_rng_state(), before)


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
