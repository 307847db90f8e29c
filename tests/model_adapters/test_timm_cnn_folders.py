import pytest
import timm
import torch
from tiny_timm import SMALL, TimmCnn, draw_state

from vlbench.errors import CannotDo, UnknownNameError, WeightsError

NARROW = {"layers": [1, 1, 1, 1], "channels": [8, 8, 8, 8]}


@pytest.fixture(scope="module")
def pixels():
    return torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


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
