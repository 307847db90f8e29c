import numpy as np
import pytest
import torch
from PIL import Image
from tiny_joint import CPU, adapter

from vlbench.check import check_adapter
from vlbench.errors import WeightsError


@pytest.fixture(params=["ResNet20", "ResNet2B"])
def kind(request):
    return adapter(f"cifar_resnets:{request.param}")


@pytest.fixture
def file(kind, tmp_path):
    """A file of random weights, with the prefix of the trained ones."""
    torch.manual_seed(0)
    state = {f"module.{key}": value for key, value in kind.network().state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "weights.pth")
    return tmp_path / "weights.pth"


def test_a_network_keeps_the_promises_of_an_adapter(kind, file):
    net = kind(device=CPU, weights=str(file))
    assert [one for one in check_adapter(net) if not one.ok] == []


def test_logits_are_the_last_layer_of_the_features(kind, file):
    net = kind(device=CPU, weights=str(file))
    pixels = net.preprocess(Image.new("RGB", (28, 28), (200, 10, 60)))[None]
    assert pixels.shape == (1, 3, 32, 32)
    last = [part for part in net.model.modules() if isinstance(part, torch.nn.Linear)][-1]
    assert torch.allclose(last(net.encode_images(pixels)), net.logits(pixels))
    assert len(net.class_names()) == 10


def test_an_image_of_its_own_size_is_not_resized(kind, file):
    noise = Image.effect_noise((32, 32), 90).convert("RGB")
    pixels = kind(device=CPU, weights=str(file)).preprocess(noise)
    assert np.array_equal((pixels * 255).round().byte().permute(1, 2, 0), np.asarray(noise))


def test_weights_that_are_absent_or_another_networks_are_named(kind, tmp_path):
    with pytest.raises(WeightsError, match=r"no file of weights at .*; download it from there"):
        kind.require_weights(str(tmp_path / "gone"), "there")
    torch.save({"state_dict": {"other": torch.ones(1)}}, tmp_path / "other.pth")
    with pytest.raises(WeightsError, match=r"other\.pth has no weights of ResNet"):
        kind(device=CPU, weights=str(tmp_path / "other.pth"))


def test_random_weights_are_drawn_with_their_seed(kind):
    pixels = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    kind.require_weights("random", "")
    drawn = [kind(device=CPU, weights="random", init_seed=seed) for seed in (1, 1, 2)]
    first, again, other = (one.logits(pixels) for one in drawn)
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
