import numpy as np
import pytest
from PIL import Image
from tiny_joint import CPU, adapter, broken_promises


@pytest.fixture
def model():
    return adapter("raw_pixels:RawPixels")(device=CPU)


def test_the_features_are_the_pixels_of_the_squashed_picture(model):
    noise = np.random.default_rng(0).integers(0, 256, (48, 80, 3), dtype=np.uint8)
    small = Image.fromarray(noise).resize((32, 32), Image.Resampling.BICUBIC)
    features = model.encode_images(model.preprocess(Image.fromarray(noise))[None])
    expected = np.asarray(small, dtype=np.float32).transpose(2, 0, 1).reshape(1, 3072) / 255
    np.testing.assert_array_equal(features.numpy(), expected)


def test_a_red_picture_fills_the_first_third(model):
    features = model.encode_images(model.preprocess(Image.new("RGB", (7, 3), (255, 0, 0)))[None])
    assert features.shape == (1, 3072)
    assert features[0].tolist() == [1.0] * 1024 + [0.0] * 2048


def test_the_contract_holds(model):
    assert broken_promises(model) == []
