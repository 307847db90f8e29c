"""The tiny models of `tiny_models`, each written and opened once for all tests of adapters."""

from functools import cache
from typing import NamedTuple

import pytest
import torch
from tiny_joint import noise
from tiny_models import KIN, OTHERS, TINY_MODELS, Tiny


class Opened(NamedTuple):
    """A tiny model: its line of the table, its folder, its arguments, and its adapter."""

    tiny: Tiny
    folder: str
    given: dict
    model: object


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    """What opens a tiny model by its name."""

    @cache
    def open_once(name):
        tiny, folder = (TINY_MODELS | KIN | OTHERS)[name], tmp_path_factory.mktemp("tiny")
        # The weights are the same whichever tests a worker ran before.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            given = tiny.write(folder)
        return Opened(tiny, str(folder), given, tiny.load(given))

    return open_once


@pytest.fixture
def folder(request, opened):
    """The folder of the tiny model that a test file names NAME."""
    return opened(request.module.NAME).folder


@pytest.fixture
def model(request, opened):
    """The adapter of the tiny model that a test file names NAME."""
    return opened(request.module.NAME).model


@pytest.fixture
def photo():
    return noise(120, 80)


@pytest.fixture(scope="session")
def pixels():
    return torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def file(tmp_path):
    """A file of weights, which goes with the test."""
    path = tmp_path / "checkpoint.pth"
    yield path
    path.unlink(missing_ok=True)
