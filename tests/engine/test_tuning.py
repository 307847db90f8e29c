import pytest
import torch
from fakes import Reader, labelled_images

from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.tuning import SIZES, tune

CPU = torch.device("cpu")
COLUMN = labelled_images(40).splits["train"]["image"]


class FastestAt(Reader):
    """Moves a clock on as if one batch size in one layout were five times as fast."""

    def __init__(self, size, *, channels_last=False):
        self.best = (size, channels_last)
        self.now = 0.0

    def encode_images(self, pixels):
        last = not pixels.is_contiguous()
        self.now += len(pixels) * (1 if (len(pixels), last) == self.best else 5)
        return pixels.flatten(1)


class RefusesChannelsLast(Reader):
    """Has a view that another layout does not allow."""

    def encode_images(self, pixels):
        return pixels.view(len(pixels), -1)


@pytest.mark.parametrize(("size", "last"), [(8, False), (8, True), (16, True)])
def test_the_fastest_batch_and_layout_are_measured_on_a_cpu(monkeypatch, size, last):
    model = FastestAt(size, channels_last=last)
    monkeypatch.setattr("vlbench.engine.tuning.time.perf_counter", lambda: model.now)
    place = tune(ComputeSettings(CPU, batch_size=None), model.encode_images, COLUMN)
    assert (place.batch_size, place.channels_last) == (size, last)


def test_a_model_that_refuses_a_layout_gets_its_own():
    place = tune(ComputeSettings(CPU, batch_size=None), RefusesChannelsLast().encode_images, COLUMN)
    assert place.batch_size in SIZES
    assert not place.channels_last


def test_what_was_measured_changes_no_feature():
    places, model = (ComputeSettings(CPU, batch_size=n) for n in (32, None)), RefusesChannelsLast()
    usual, tuned = (Engine(place).features(model.encode_images, COLUMN) for place in places)
    assert torch.equal(usual, tuned)
