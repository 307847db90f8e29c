import re
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from vlbench import hub
from vlbench.check import check_adapter
from vlbench.errors import CannotDo, SpecError, UnknownNameError, WeightsError
from vlbench.resolve import load_object

FOLDER = Path(__file__).parents[2] / "model_adapters"
TimmCnn = load_object("timm_cnn:TimmCnn", [FOLDER])
CPU = torch.device("cpu")
SMALL = {"device": CPU, "resize": 64}
BIT = "resnetv2_50x1_bit.goog_in21k"
LITTLE = "resnet18.a1_in1k"
CLASSES = 5


def draw_state(name, **options):
    """Weights that no initialisation leaves at zero or one, and that keep the signal's scale."""
    rng = torch.Generator().manual_seed(0)
    state = timm.create_model(name, **options).state_dict()
    flat = {k: 0.5 + torch.rand(v.shape, generator=rng) for k, v in state.items() if v.ndim == 1}
    deep = {
        k: torch.randn(v.shape, generator=rng) * v[0].numel() ** -0.5
        for k, v in state.items()
        if v.ndim > 1
    }
    return {**state, **flat, **deep}


@pytest.fixture(scope="module")
def bit():
    return draw_state(BIT, num_classes=CLASSES)


@pytest.fixture(scope="module")
def little():
    return draw_state(LITTLE)


@pytest.fixture(scope="module")
def pixels():
    return torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


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
    """The name of one of timm's weights in BiT-M-R50x1.npz."""
    if key in OTHERS:
        return OTHERS[key]
    stage, block, kind, number, end = IN_BLOCK.fullmatch(key).groups()
    letter = "abc"[int(number) - 1] if number else "a/proj"
    place = PLACES[kind[-4:]] + (ENDS[end] if kind == "norm" else "")
    return f"resnet/block{int(stage) + 1}/unit{int(block) + 1:02d}/{letter}/{place}"


def google_layout(state):
    """Kernels as height, width, in, out."""
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
    del arrays["resnet/block3/unit02/b/group_norm/gamma"]
    np.savez(archive, **arrays)
    with pytest.raises(WeightsError, match=r"fit resnetv2.*block3/unit02/b/group_norm/gamma"):
        TimmCnn(**SMALL, weights=str(archive))


def test_an_archive_of_a_larger_network_is_refused(bit, archive):
    more = {"resnet/block3/unit07/a/group_norm/gamma": np.ones(256, np.float32)}
    np.savez(archive, **google_layout(bit), **more)
    with pytest.raises(WeightsError, match=r"holds 23510853 weights, .* has 23510597$"):
        TimmCnn(**SMALL, weights=str(archive))


def test_what_is_no_archive_is_refused(archive):
    archive.write_text("<html>404</html>")
    with pytest.raises(WeightsError, match=r"does not fit resnetv2_50x1_bit\.goog_in21k"):
        TimmCnn(**SMALL, weights=str(archive))


def test_a_state_dict_gives_the_logits_of_timm(little, pixels, file):
    save_file(little, file)
    model = TimmCnn(**SMALL, architecture=LITTLE, weights=file)
    whole = timm.create_model(LITTLE).eval()
    whole.load_state_dict(little)
    mean, std = (torch.tensor(whole.pretrained_cfg[k]).view(3, 1, 1) for k in ("mean", "std"))
    torch.testing.assert_close(model.logits(pixels), whole((pixels - mean) / std))


def test_a_missing_weight_is_named(little, file):
    save_file({k: v for k, v in little.items() if k != "layer1.0.conv1.weight"}, file)
    with pytest.raises(WeightsError, match=r"1 missing: layer1\.0\.conv1\.weight$"):
        TimmCnn(**SMALL, architecture=LITTLE, weights=file)


def test_a_file_without_a_head_does_not_classify(little, pixels, file):
    save_file({k: v for k, v in little.items() if not k.startswith("fc.")}, file)
    model = TimmCnn(**SMALL, architecture=LITTLE, weights=file)
    assert model.encode_images(pixels).shape == (2, 512)
    with pytest.raises(CannotDo, match="no classification head"):
        model.logits(pixels)
    with pytest.raises(CannotDo, match="no classification head"):
        model.class_names()


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


def test_random_weights_obey_their_seed(pixels):
    before = torch.get_rng_state()
    draws = [
        TimmCnn(**SMALL, architecture=LITTLE, weights="random", init_seed=seed)
        for seed in (0, 0, 1)
    ]
    first, same, other = (model.encode_images(pixels) for model in draws)
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unknown_architecture_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean .*resnet50"):
        TimmCnn(**SMALL, architecture="resnet500")


def test_an_unknown_tag_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"did you mean .*resnetv2_50x1_bit\.goog_in21k"):
        TimmCnn(**SMALL, architecture="resnetv2_50x1_bit.goog_in2k")


def test_an_absent_file_is_named():
    with pytest.raises(WeightsError, match=r"no file of weights at nowhere\.npz"):
        TimmCnn(**SMALL, weights="nowhere.npz")


def test_an_architecture_without_weights_asks_for_a_file():
    with pytest.raises(WeightsError, match="timm has no weights of botnet50ts_256"):
        TimmCnn(**SMALL, architecture="botnet50ts_256")


def test_offline_names_the_download_and_the_way_around_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    message = r"from timm/resnetv2_50x1_bit\.goog_in21k, revision main: .* --model-args weights="
    with pytest.raises(WeightsError, match=message):
        TimmCnn(**SMALL)


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


@pytest.fixture
def photo():
    noise = np.random.default_rng(0).integers(0, 256, (80, 120, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def seen(photo, **options):
    model = TimmCnn(device=CPU, architecture=LITTLE, weights="random", **options)
    return (model.preprocess(photo) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def test_the_centre_of_the_resized_picture_is_seen(photo):
    expected = photo.resize((60, 40), Image.Resampling.BICUBIC).crop((14, 4, 46, 36))
    np.testing.assert_array_equal(seen(photo, resize=40, crop=32), np.asarray(expected))


def test_a_squashed_picture_is_seen_whole(photo):
    expected = photo.resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(seen(photo, resize=32, squash=True), np.asarray(expected))


def test_a_crop_beyond_the_picture_is_refused(photo):
    with pytest.raises(SpecError, match="crop 256 is larger than resize 224"):
        seen(photo, resize=224, crop=256)


def test_the_contract_holds(little, file):
    save_file(little, file)
    model = TimmCnn(device=CPU, architecture=LITTLE, weights=file, resize=32)
    assert [finding for finding in check_adapter(model) if not finding.ok] == []


NARROW = {"layers": [1, 1, 1, 1], "channels": [8, 8, 8, 8]}


def save_folder(folder, **options):
    """Write a narrow network with three classes, as timm itself saves one."""
    state = draw_state("resnet18", num_classes=3, **NARROW)
    model = timm.create_model("resnet18", num_classes=3, **NARROW)
    model.load_state_dict(state)
    config = {"model_args": NARROW, "pretrained_cfg": {"mean": [0.1] * 3, "std": [0.2] * 3}}
    timm.models.save_for_hf(model, folder, model_config=config | options, safe_serialization=True)
    return model.eval()


def test_a_folder_that_timm_saved_gives_its_logits_and_names(pixels, tmp_path):
    whole = save_folder(tmp_path, label_names=["owl", "eel", "oak"])
    model = TimmCnn(**SMALL, architecture=str(tmp_path))
    torch.testing.assert_close(model.logits(pixels), whole((pixels - 0.1) / 0.2))
    assert model.class_names() == ["owl", "eel", "oak"]


def test_a_folder_takes_another_file_of_weights(pixels, tmp_path):
    save_folder(tmp_path)
    other = tmp_path / "other.safetensors"
    (tmp_path / "model.safetensors").rename(other)
    with pytest.raises(WeightsError, match=r"no file of weights at .*model\.safetensors$"):
        TimmCnn(**SMALL, architecture=str(tmp_path))
    model = TimmCnn(**SMALL, architecture=str(tmp_path), weights=str(other))
    assert model.logits(pixels).shape == (2, 3)


def test_a_folder_that_names_no_classes_has_no_names(tmp_path):
    save_folder(tmp_path)
    with pytest.raises(CannotDo, match="this checkpoint's 3 classes are not known"):
        TimmCnn(**SMALL, architecture=str(tmp_path)).class_names()


def test_a_folder_that_timm_did_not_save_is_refused(tmp_path):
    with pytest.raises(WeightsError, match=r"config\.json cannot be read as timm's: FileNotFound"):
        TimmCnn(**SMALL, architecture=str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(WeightsError, match=r"cannot be read as timm's: KeyError\('num_classes'\)"):
        TimmCnn(**SMALL, architecture=str(tmp_path))


def test_a_folder_of_an_unknown_architecture_names_the_nearest(tmp_path):
    config = '{"architecture": "resnet180", "num_classes": 3, "pretrained_cfg": {}}'
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(UnknownNameError, match=r"did you mean .*resnet18"):
        TimmCnn(**SMALL, architecture=str(tmp_path))
