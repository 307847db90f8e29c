"""What benchmarks/gpu.py measures holds; on the CPU, that it measures."""

from pathlib import Path

import pytest
import torch

from vlbench.code.functions import load_object

# foolbox imports a SciPy function by a deprecated name.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

FOLDER = [Path(__file__).parents[2] / "benchmarks"]
extraction = load_object("gpu:extraction", FOLDER)
attacks = load_object("gpu:attacks", FOLDER)
MODELS = load_object("gpu:MODELS", FOLDER)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("architecture", MODELS)
def test_extraction_is_nearly_as_fast_as_the_forward_pass(gpu, architecture):
    assert extraction(gpu, architecture, MODELS[architecture]).ratio >= 0.9


@pytest.mark.timeout(600)
def test_attacks_are_no_slower_than_foolbox_one_by_one(gpu):
    assert attacks(gpu, "resnet50") <= 1.1


@pytest.mark.nightly
def test_the_measurements_themselves_run():
    measured = extraction(torch.device("cpu"), "ViT-S-32-alt", 8, batch_size=4)
    assert measured.engine > 0
    assert measured.forward > 0
    assert attacks(torch.device("cpu"), "resnet18", images=2, side=32, epsilons=[0.01]) > 0
