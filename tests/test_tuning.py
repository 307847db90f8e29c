import time

import pytest
import torch
from fakes import Reader, labelled_images

from vlbench.engine import Engine
from vlbench.engine.passes import Place
from vlbench.engine.tuning import SIZES, tuned

CPU = torch.device("cpu")
COLUMN = labelled_images(40).splits["train"]["image"]


class FastestAt(Reader):
    """Takes as long for a batch as the images in it, but for one size and layout."""

    def __init__(self, size, *, channels_last=False):
        self.best = (size, channels_last)

    def encode_images(self, pixels):
        last = pixels.is_contiguous(memory_format=torch.channels_last)
        known = (len(pixels), last and not pixels.is_contiguous()) == self.best
        time.sleep(len(pixels) * (0.0002 if known else 0.001))
        return pixels.flatten(1)


class RefusesChannelsLast(Reader):
    """Has a view that another layout does not allow."""

    def encode_images(self, pixels):
        return pixels.view(len(pixels), -1)


@pytest.mark.parametrize(("size", "last"), [(8, False), (16, False), (8, True)])
def test_the_fastest_batch_and_layout_are_measured_on_a_cpu(size, last):
    place = tuned(Place(CPU, None), FastestAt(size, channels_last=last).encode_images, COLUMN)
    assert (place.batch_size, place.channels_last) == (size, last)


def test_a_model_that_refuses_a_layout_gets_its_own():
    place = tuned(Place(CPU, None), RefusesChannelsLast().encode_images, COLUMN)
    assert place.batch_size in SIZES
    assert not place.channels_last


def test_what_was_measured_changes_no_feature():
    images, model = labelled_images(40).splits["train"]["image"], RefusesChannelsLast()
    usual = Engine(Place(CPU)).features(model.encode_images, images)
    assert torch.equal(Engine(Place(CPU, None)).features(model.encode_images, images), usual)
