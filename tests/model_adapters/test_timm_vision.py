import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from tiny_joint import CPU, adapter, broken_promises
from tiny_timm import draw_state

from vlbench.errors import WeightsError

TimmVision = adapter("timm_vision:TimmVision")
LITTLE = "test_vit.r160_in1k"
RANDOM = {"device": CPU, "weights": "random"}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    file = tmp_path_factory.mktemp("timm") / "model.safetensors"
    save_file(draw_state(LITTLE), file)
    return str(file)


@pytest.fixture(scope="module")
def little(weights):
    return TimmVision(device=CPU, architecture=LITTLE, weights=weights)


def bare(weights):
    """The library's own model and preprocessing."""
    model = timm.create_model(LITTLE, checkpoint_path=weights).eval()
    options = timm.data.resolve_model_data_config(model)
    return model, timm.data.create_transform(**options, is_training=False)


def test_features_and_logits_are_the_librarys(little, weights):
    model, transform = bare(weights)
    photo = Image.radial_gradient("L").resize((300, 200)).convert("RGB")
    inputs, pixels = transform(photo)[None], little.preprocess(photo)[None]
    assert pixels.shape == (1, 3, 160, 160)
    pooled = model.forward_head(model.forward_features(inputs), pre_logits=True)
    torch.testing.assert_close(little.encode_images(pixels), pooled)
    torch.testing.assert_close(little.logits(pixels), model(inputs))


def test_a_transformer_has_the_size_that_it_reads():
    model = TimmVision(**RANDOM, architecture="vit_tiny_patch16_224")
    pixels = model.preprocess(Image.new("RGB", (50, 60)))
    assert pixels.shape == (3, 224, 224)
    assert model.encode_images(pixels[None]).shape == (1, 192)


def test_absent_weights_are_named():
    with pytest.raises(WeightsError, match=r"no file of weights at nowhere\.pt"):
        TimmVision(device=CPU, architecture=LITTLE, weights="nowhere.pt")


def test_the_contract_holds(little):
    assert broken_promises(little) == []
