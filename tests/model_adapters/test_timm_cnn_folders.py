import pytest
import timm
import torch
import transformers
from tiny_cnns import SMALL, TimmCnn, draw_timm

from vlbench.errors import CannotDo, UnknownNameError, WeightsError

NARROW = {"layers": [1, 1, 1, 1], "channels": [8, 8, 8, 8]}


def save_folder(folder, **options):
    """Write a narrow network with three classes, as timm itself saves one."""
    state = draw_timm("resnet18", num_classes=3, **NARROW)
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


def test_a_folder_that_transformers_saved_gives_its_logits(pixels, tmp_path):
    stated = {"mean": [0.1] * 3, "std": [0.2] * 3}
    config = transformers.TimmWrapperConfig(
        architecture="resnet18", model_args=NARROW, pretrained_cfg=stated
    )
    config.num_labels = 3
    whole = transformers.TimmWrapperForImageClassification(config).eval()
    whole.save_pretrained(tmp_path)
    model = TimmCnn(**SMALL, architecture=str(tmp_path))
    expected = whole(pixel_values=(pixels - 0.1) / 0.2).logits
    torch.testing.assert_close(model.logits(pixels), expected.detach())


def test_a_file_of_names_goes_before_the_folders(tmp_path):
    save_folder(tmp_path, label_names=["owl", "eel", "oak"])
    (tmp_path / "names.txt").write_text("Eule\nAal\nEiche\n")
    classes = str(tmp_path / "names.txt")
    model = TimmCnn(**SMALL, architecture=str(tmp_path), classes=classes)
    assert model.class_names() == ["Eule", "Aal", "Eiche"]


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
    (tmp_path / "config.json").write_text("[" * 200_000)
    with pytest.raises(WeightsError, match=r"cannot be read as timm's: RecursionError"):
        TimmCnn(**SMALL, architecture=str(tmp_path))
    for wrong in ("7", "null", '["resnet18"]'):
        config = f'{{"architecture": {wrong}, "num_classes": 3, "pretrained_cfg": {{}}}}'
        (tmp_path / "config.json").write_text(config)
        with pytest.raises(WeightsError, match=r"timm's: .*architecture is .*no name"):
            TimmCnn(**SMALL, architecture=str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(WeightsError, match=r"cannot be read as timm's: KeyError\('num_classes'\)"):
        TimmCnn(**SMALL, architecture=str(tmp_path))


def test_a_folder_of_an_unknown_architecture_names_the_nearest(tmp_path):
    config = '{"architecture": "resnet180", "num_classes": 3, "pretrained_cfg": {}}'
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(UnknownNameError, match=r"did you mean .*resnet18"):
        TimmCnn(**SMALL, architecture=str(tmp_path))


TWO_HEADS = [
    ("deit_tiny_distilled_patch16_224", {"embed_dim": 12, "depth": 1}),
    ("levit_128s", {"embed_dim": (16, 16, 16), "depth": (1, 1, 1), "num_heads": (1, 1, 1)}),
    ("efficientformerv2_s0", {"embed_dims": (8, 8, 8, 8), "depths": (1, 1, 1, 1)}),
]


@pytest.mark.parametrize(("name", "narrow"), TWO_HEADS)
def test_a_network_with_two_heads_is_read_from_a_folder_and_from_a_file(name, narrow, tmp_path):
    state = draw_timm(name, num_classes=3, **narrow)
    model = timm.create_model(name, num_classes=3, **narrow).eval()
    model.load_state_dict(state)
    config = {"model_args": narrow, "pretrained_cfg": {"mean": [0.1] * 3, "std": [0.2] * 3}}
    timm.models.save_for_hf(model, tmp_path, model_config=config, safe_serialization=True)
    pixels = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    for weights in ("pretrained", str(tmp_path / "model.safetensors")):
        found = TimmCnn(**SMALL | {"resize": 224}, architecture=str(tmp_path), weights=weights)
        torch.testing.assert_close(found.logits(pixels), model((pixels - 0.1) / 0.2))
    assert found.encode_images(pixels).shape == (1, model.head_hidden_size)


NO_NETWORKS = [
    ({"layers": [1, 10**7, 1, 1]}, r"config\.json: layers is 10000000; 1024 is the maximum"),
    ({"channels": [8, 8, 8, 10**7]}, r"config\.json: channels is 10000000; 1e\+06 is the maximum"),
    ({"checkpoint_path": "evil.pth"}, "checkpoint_path names another file"),
    (
        {"channels": [8, 8, 8, 10**4]},
        r"needs 9\d\d,\d+,\d+ numbers, but its weights are \d+,\d+ bytes",
    ),
    ({"note": "x" * 9_000_000}, "it has 900.... bytes; at most 8388608 are read"),
]


@pytest.mark.parametrize(("args", "message"), NO_NETWORKS)
def test_a_folder_of_no_network_is_refused_by_its_key(args, message, tmp_path):
    save_folder(tmp_path, model_args=args)
    with pytest.raises(WeightsError, match=message):
        TimmCnn(**SMALL, architecture=str(tmp_path))
