import re

import huggingface_hub
import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from tiny_cnns import SMALL, TimmCnn, draw_timm
from tiny_joint import CPU, as_bytes

from vlbench.errors import CannotDo, UnknownNameError, WeightsError
from vlbench.system import hub

BIT = "resnetv2_50x1_bit.goog_in21k"
LITTLE = "resnet18.a1_in1k"
CLASSES = 5


@pytest.fixture
def bit(monkeypatch):
    """Weights of BiT-M with one block per stage, which is the depth of all BiTs in this test."""
    build = timm.models.resnetv2._create_resnetv2_bit
    shallow = {"layers": [1, 1, 1, 1]}
    monkeypatch.setattr(
        timm.models.resnetv2,
        "_create_resnetv2_bit",
        lambda *names, **options: build(*names, **options | shallow),
    )
    return draw_timm(BIT, num_classes=CLASSES)


@pytest.fixture(scope="module")
def little():
    return draw_timm(LITTLE)


PLACES = {"conv": "standardized_conv2d/kernel", "norm": "group_norm/"}
ENDS = {"weight": "gamma", "bias": "beta"}
OTHERS = {
    "stem.conv.weight": "resnet/root_block/standardized_conv2d/kernel",
    "norm.weight": "resnet/group_norm/gamma",
    "norm.bias": "resnet/group_norm/beta",
    "head.fc.weight": "resnet/head/conv2d/kernel",
    "head.fc.bias": "resnet/head/conv2d/bias",
}
IN_BLOCK = re.compile(r"stages\.(\d)\.blocks\.(\d+)\.(conv|norm|downsample\.conv)(\d?)\.(\w+)")


def google_key(key):
    """Return the name of one of timm's weights in BiT-M-R50x1.npz."""
    if key in OTHERS:
        return OTHERS[key]
    stage, block, kind, number, end = IN_BLOCK.fullmatch(key).groups()
    letter = "abc"[int(number) - 1] if number else "a/proj"
    place = PLACES[kind[-4:]] + (ENDS[end] if kind == "norm" else "")
    return f"resnet/block{int(stage) + 1}/unit{int(block) + 1:02d}/{letter}/{place}"


def google_layout(state):
    """Return weights as Google stores them: kernels as height, width, in, out."""
    arrays = {google_key(key): value.numpy() for key, value in state.items()}
    return {key: a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for key, a in arrays.items()}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "BiT-M-R50x1.npz"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "model.safetensors")


def test_googles_archive_gives_the_features_of_timm(bit, pixels, archive):
    np.savez(archive, **google_layout(bit))
    model = TimmCnn(**SMALL, weights=str(archive))
    whole = timm.create_model(BIT, num_classes=CLASSES).eval()
    whole.load_state_dict(bit)
    normalised = (pixels - 0.5) / 0.5
    torch.testing.assert_close(model.logits(pixels), whole(normalised))
    whole.reset_classifier(0)
    features = model.encode_images(pixels)
    assert features.shape == (2, 2048)
    torch.testing.assert_close(features, whole(normalised))


def test_an_array_that_google_lacks_is_named(bit, archive):
    arrays = google_layout(bit)
    del arrays["resnet/block3/unit01/b/group_norm/gamma"]
    np.savez(archive, **arrays)
    with pytest.raises(WeightsError, match=r"fit resnetv2.*block3/unit01/b/group_norm/gamma"):
        TimmCnn(**SMALL, weights=str(archive))


def test_an_archive_of_a_larger_network_is_refused(bit, archive):
    more = {"resnet/block3/unit07/a/group_norm/gamma": np.ones(256, np.float32)}
    np.savez(archive, **google_layout(bit), **more)
    fitting = sum(weight.numel() for weight in bit.values())
    expected = rf"holds {fitting + 256} weights, .* has {fitting}$"
    with pytest.raises(WeightsError, match=expected):
        TimmCnn(**SMALL, weights=str(archive))


def test_what_is_no_archive_is_refused(archive):
    archive.write_text("<html>404</html>")
    with pytest.raises(WeightsError, match=r"npz cannot be read as weights: File is not a zip"):
        TimmCnn(**SMALL, weights=str(archive))


def test_a_state_dict_gives_the_logits_of_timm(little, pixels, file):
    save_file(little, file)
    model = TimmCnn(**SMALL, architecture=LITTLE, weights=file)
    whole = timm.create_model(LITTLE).eval()
    whole.load_state_dict(little)
    mean, std = (torch.tensor(whole.pretrained_cfg[k]).view(3, 1, 1) for k in ("mean", "std"))
    torch.testing.assert_close(model.logits(pixels), whole((pixels - mean) / std))


def test_imagenets_classes_have_names():
    names = TimmCnn(**SMALL, architecture=LITTLE, weights="random").class_names()
    assert len(names) == 1000
    assert names[0] == "tench, Tinca tinca"


def test_other_classes_have_no_names(little, file):
    head = {"fc.weight": torch.zeros(7, 512), "fc.bias": torch.zeros(7)}
    save_file(little | head, file)
    model = TimmCnn(**SMALL, architecture=LITTLE, weights=file)
    with pytest.raises(CannotDo, match="this checkpoint's 7 classes are not known"):
        model.class_names()


def test_an_unknown_architecture_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean .*resnet50"):
        TimmCnn(**SMALL, architecture="resnet500")


def test_an_unknown_tag_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean .*resnetv2_50x1_bit\.goog_in21k"):
        TimmCnn(**SMALL, architecture="resnetv2_50x1_bit.goog_in2k")


def test_an_architecture_without_weights_asks_for_a_file():
    with pytest.raises(WeightsError, match="timm has no weights of botnet50ts_256"):
        TimmCnn(**SMALL, architecture="botnet50ts_256")


def test_a_hub_that_cannot_be_reached_is_asked_for_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(WeightsError, match="revision main: the hub cannot be reached"):
        TimmCnn(**SMALL)


def test_downloaded_weights_are_found_offline(monkeypatch, tmp_path, little, pixels):
    revision = "0123456789012345678901234567890123456789"
    snapshot = tmp_path / "models--timm--resnet18.a1_in1k" / "snapshots" / revision
    snapshot.mkdir(parents=True)
    save_file(little, snapshot / "model.safetensors")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    model = TimmCnn(**SMALL, architecture=LITTLE, revision=revision)
    again = TimmCnn(**SMALL, architecture=LITTLE, weights=str(snapshot / "model.safetensors"))
    assert torch.equal(model.logits(pixels), again.logits(pixels))


def seen(photo, **options):
    model = TimmCnn(device=CPU, architecture=LITTLE, weights="random", **options)
    return as_bytes(model.preprocess(photo))


def test_the_centre_of_the_resized_picture_is_seen(photo):
    expected = photo.resize((60, 40), Image.Resampling.BICUBIC).crop((14, 4, 46, 36))
    np.testing.assert_array_equal(seen(photo, resize=40, crop=32), np.asarray(expected))


def test_a_squashed_picture_is_seen_whole(photo):
    expected = photo.resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(seen(photo, resize=32, squash=True), np.asarray(expected))


@pytest.mark.parametrize("architecture", ["test_resnet.r160_in1k", "resnetv2_50x1_bit.goog_in21k"])
def test_a_grid_has_what_the_head_pools(architecture, pixels, bit):
    del bit
    model = TimmCnn(**SMALL, architecture=architecture, weights="random")
    grid = model.encode_grid(pixels)
    assert grid.shape[2:] == (2, 2)
    torch.testing.assert_close(grid.mean((2, 3)), model.encode_images(pixels), rtol=1e-4, atol=1e-5)


def test_an_architecture_whose_hidden_states_timm_does_not_give_has_no_grid(pixels):
    model = TimmCnn(**SMALL, architecture="test_resnet.r160_in1k", weights="random")
    model.model = torch.nn.Identity()
    with pytest.raises(CannotDo, match="timm gives no grid of hidden states of this architecture"):
        model.encode_grid(pixels)
