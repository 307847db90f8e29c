from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vlbench.code.functions import load_object

FOLDER = Path(__file__).parents[2] / "model_adapters"


@pytest.fixture
def model():
    return load_object("colour_histogram:ColourHistogram", [FOLDER])(device=torch.device("cpu"))


def test_an_image_is_the_root_of_numpys_histogram_of_its_colours(model):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    edges = [0, 64, 128, 192, 256]
    counts = np.histogramdd(pixels.reshape(-1, 3), [edges] * 3)[0].ravel() / 32**2
    found = model.encode_images(model.preprocess(Image.fromarray(pixels))[None])
    assert found[0].numpy() == pytest.approx(np.sqrt(counts), abs=1e-6)


def test_where_things_are_and_how_large_the_image_is_does_not_matter(model):
    image = Image.new("RGB", (64, 64), (255, 0, 0))
    image.paste((0, 0, 255), (0, 0, 64, 32))
    turned = image.transpose(Image.Transpose.ROTATE_180).resize(
        (128, 128), Image.Resampling.NEAREST
    )
    one, other = (model.encode_images(model.preprocess(i)[None]) for i in (image, turned))
    assert torch.equal(one, other)
    assert one.square().sum() == pytest.approx(1)
