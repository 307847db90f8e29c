from importlib.metadata import version

import numpy as np
import pytest
import torch
from fakes import Reader
from PIL import Image
from torchvision.transforms import v2

from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.probes.generalization import augmentation as module
from vlbench.probes.generalization.augmentation import augmented, augmented_features


def gradient_images(n):
    """Return images 64 x 64 whose red is the column, and whose green is the row."""
    place = np.indices((64, 64), dtype=np.uint8)
    pixels = np.stack([place[1], place[0], place[0] * 0], axis=2)
    return Column("gradient", "image", [Image.fromarray(pixels)] * n, range(n))


def crops(**params):
    """Return 200 augmented gradients, int [200, 64, 64, 3]."""
    column = augmented(gradient_images(200), (64, 64), **params)
    return np.array([np.array(image) for image in column]).astype(int)


@pytest.mark.parametrize("other", [{"seed": 0, "epoch": 1}, {"seed": 1, "epoch": 0}])
def test_each_epoch_and_seed_has_crops_of_its_own_and_the_same_again(other):
    column = gradient_images(3)
    draws = ({"seed": 0, "epoch": 0}, {"seed": 0, "epoch": 0}, other)
    first, again, other = (augmented(column, (64, 64), **draw) for draw in draws)
    assert first.key == again.key != other.key
    assert [image.tobytes() for image in first] == [image.tobytes() for image in again]
    assert len({image.tobytes() for image in [*first, *other]}) == 6


def test_a_crop_depends_on_its_row_not_on_what_is_read_before():
    column = augmented(gradient_images(5), (64, 64), seed=0, epoch=0)
    whole = [image.tobytes() for image in column]
    assert [image.tobytes() for image in column.select([4, 1])] == [whole[4], whole[1]]


def test_crops_show_8_to_100_percent_of_the_image_and_half_are_mirrored():
    seen = crops(seed=1, epoch=2)
    assert seen.shape == (200, 64, 64, 3)
    width, height = (np.ptp(seen[..., channel], axis=(1, 2)) + 1 for channel in (0, 1))
    area = width * height / 64**2
    # Of uniform areas s, those over 3/4 fit for some of the aspect ratios 3/4..4/3 alone: the mean
    # over s of ln(1/s) / ln(4/3), at most 1, is 0.478.
    assert 0.06 < area.min() < 0.12
    assert 0.9 < area.max() <= 1.0
    assert area.mean() == pytest.approx(0.478, abs=0.05)
    mirrored = (seen[:, 32, 0, 0] > seen[:, 32, -1, 0]).mean()
    assert mirrored == pytest.approx(0.5, abs=0.12)


def test_crops_are_taken_from_an_image_20_pixels_larger(monkeypatch):
    monkeypatch.setattr(v2, "RandomResizedCrop", lambda *_, **__: v2.Identity())
    assert augmented(gradient_images(1), (24, 40), seed=0, epoch=0)[0].size == (44, 44)


@pytest.mark.parametrize("left_out", ["Resize", "RandomResizedCrop"])
def test_images_are_resized_and_cropped_with_bicubic_interpolation(left_out, monkeypatch):
    # Beside an edge bicubic interpolation overshoots the values of both sides, bilinear never does.
    edge = np.where(np.arange(16) < 8, 60, 190).astype(np.uint8)
    image = Image.fromarray(np.broadcast_to(edge[None, :, None], (16, 16, 3)).copy())
    column = Column("edge", "image", [image] * 20, range(20))
    monkeypatch.setattr(v2, left_out, lambda *_, **__: v2.Identity())
    seen = np.array([np.array(one) for one in augmented(column, (64, 64), seed=0, epoch=0)])
    assert seen.min() < 60
    assert seen.max() > 190


def test_the_interpolation_is_part_of_the_key(monkeypatch):
    before = augmented(gradient_images(1), (64, 64), seed=0, epoch=0).key
    monkeypatch.setattr(module, "INTERPOLATION", "bilinear")
    assert augmented(gradient_images(1), (64, 64), seed=0, epoch=0).key != before


def test_augmented_images_have_the_size_of_the_adapters_pixels():
    column = augmented(gradient_images(1), (24, 40), seed=0, epoch=0)
    assert column[0].size == (40, 24)


def test_the_global_generator_is_left_as_it_was():
    state = torch.get_rng_state()
    list(augmented(gradient_images(3), (64, 64), seed=0, epoch=0))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_features_of_an_epoch_are_those_of_its_augmented_images():
    class Mean(Reader):
        def encode_images(self, pixels):
            return pixels.mean((2, 3))

    epochs = augmented_features(Mean(), gradient_images(4), Engine.for_tests(), epochs=2, seed=3)
    for epoch, features in enumerate(epochs):
        images = augmented(gradient_images(4), (64, 64), seed=3, epoch=epoch)
        pixels = torch.stack([Mean().preprocess(image) for image in images])
        assert torch.allclose(features, pixels.mean((2, 3)))


def test_another_version_of_torchvision_is_another_column(monkeypatch):
    before = augmented(gradient_images(1), (64, 64), seed=0, epoch=0).key
    assert version("torchvision")
    monkeypatch.setattr(module, "version", lambda _: "another")
    assert augmented(gradient_images(1), (64, 64), seed=0, epoch=0).key != before
