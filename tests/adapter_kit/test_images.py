import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import Normalize
from transformers import image_utils

from vlbench.adapter_kit.images import (
    CLIP,
    IMAGENET,
    images_of,
    normalise,
    pixels_of,
    resizing,
    to_pixels,
)
from vlbench.capabilities import Picture
from vlbench.errors import DataError, SpecError


@pytest.fixture
def photo():
    noise = np.random.default_rng(0).integers(0, 256, (80, 120, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def as_bytes(pixels):
    return (pixels * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def test_pixels_are_the_images_bytes_over_255(photo):
    pixels = to_pixels(photo)
    assert (pixels.shape, pixels.dtype) == ((3, 80, 120), torch.float32)
    np.testing.assert_array_equal(as_bytes(pixels), np.asarray(photo))
    assert 0 <= pixels.min() <= pixels.max() <= 1


def test_the_centre_of_the_resized_image_is_cut(photo):
    expected = photo.resize((60, 40), Image.Resampling.BICUBIC).crop((14, 4, 46, 36))
    np.testing.assert_array_equal(as_bytes(resizing(40, 32)(photo)), np.asarray(expected))


def test_a_squashed_image_is_whole(photo):
    expected = photo.resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(as_bytes(resizing(32, squash=True)(photo)), np.asarray(expected))


@pytest.mark.parametrize("name", ["bicubic", "bilinear", "nearest"])
def test_an_image_is_resized_by_the_interpolation_asked_for(photo, name):
    expected = photo.resize((48, 32), Image.Resampling[name.upper()]).crop((8, 0, 40, 32))
    np.testing.assert_array_equal(
        as_bytes(resizing(32, interpolation=name)(photo)), np.asarray(expected)
    )


def test_without_a_crop_the_square_is_as_large_as_the_shorter_side(photo):
    assert resizing(40)(photo).shape == (3, 40, 40)


def test_a_crop_larger_than_the_image_is_refused():
    with pytest.raises(SpecError, match="crop 256 is larger than resize 224"):
        resizing(224, 256)


def test_resizing_can_be_pickled_for_workers(photo):
    steps = resizing(40, 32)
    assert torch.equal(pickle.loads(pickle.dumps(steps))(photo), steps(photo))  # noqa: S301


def test_normalising_is_torchvisions_to_the_last_bit():
    pixels = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(normalise(pixels, *CLIP), Normalize(*CLIP)(pixels))


def test_the_constants_are_the_published_ones():
    published = image_utils.IMAGENET_DEFAULT_MEAN, image_utils.IMAGENET_DEFAULT_STD
    assert tuple(map(tuple, published)) == IMAGENET
    published = image_utils.OPENAI_CLIP_MEAN, image_utils.OPENAI_CLIP_STD
    assert tuple(map(tuple, published)) == CLIP


def test_a_picture_without_an_image_is_named(photo):
    pictures = [Picture(photo, None), Picture(None, None)]
    with pytest.raises(DataError, match="picture 1 of the batch has no image"):
        images_of(pictures)
    with pytest.raises(DataError, match="picture 1 of the batch has no image"):
        pixels_of(pictures, to_pixels)


def test_images_become_one_batch(photo):
    pixels = pixels_of([Picture(photo, None)] * 2, resizing(32))
    assert pixels.shape == (2, 3, 32, 32)
