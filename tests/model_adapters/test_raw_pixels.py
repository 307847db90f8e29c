import numpy as np
from PIL import Image
from tiny_joint import noise

NAME = "raw_pixels"


def test_the_features_are_the_pixels_of_the_squashed_picture(model):
    photo = noise(80, 48)
    small = photo.resize((32, 32), Image.Resampling.BICUBIC)
    features = model.encode_images(model.preprocess(photo)[None])
    expected = np.asarray(small, dtype=np.float32).transpose(2, 0, 1).reshape(1, 3072) / 255
    np.testing.assert_array_equal(features.numpy(), expected)


def test_a_red_picture_fills_the_first_third(model):
    features = model.encode_images(model.preprocess(Image.new("RGB", (7, 3), (255, 0, 0)))[None])
    assert features.shape == (1, 3072)
    assert features[0].tolist() == [1.0] * 1024 + [0.0] * 2048
