import dill
import numpy as np
import pytest
import torch
import torchvision
from hostile_code import Bomb
from tiny_cnns import IMAGENET, LITTLE, TorchvisionCnn, draw_torchvision, headless
from torch import nn
from torchvision.transforms import Normalize

from vlbench.errors import WeightsError


@pytest.fixture(scope="module")
def little():
    return draw_torchvision("resnet18")


@pytest.fixture(scope="module")
def reference(little):
    """The model as the authors of a paper load it: torchvision's, without its head."""
    model = torchvision.models.resnet18()
    model.load_state_dict(little)
    model.fc = nn.Identity()
    return model.eval().requires_grad_(requires_grad=False)


def prefixed(state, prefix):
    return {f"{prefix}{key}": value for key, value in state.items()}


def madry(state, mean, std):
    """Return the state dict of an AttackerModel in DataParallel, which has the network twice."""
    normaliser = {"new_mean": mean.view(3, 1, 1), "new_std": std.view(3, 1, 1)}
    return (
        prefixed(normaliser, "module.normalizer.")
        | prefixed(state, "module.model.")
        | prefixed(normaliser, "module.attacker.normalize.")
        | prefixed(state, "module.attacker.model.")
    )


LAYOUTS = {
    "SIN": lambda s: {
        "epoch": 60,
        "arch": "resnet50",
        "state_dict": prefixed(s, "module."),
        "best_prec1": torch.tensor(0.0),
    },
    "VirTex's backbone": headless,
    "VirTex's whole model": lambda s: {
        "model": prefixed(headless(s), "visual.cnn.") | {"textual.output.bias": torch.zeros(9)},
        "iteration": 500000,
    },
    "ICMLM": lambda s: {"cnn": headless(s), "tfm": {"attention.weight": torch.zeros(3, 3)}},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_published_layout_gives_torchvisions_features(layout, little, reference, pixels, file):
    torch.save(LAYOUTS[layout](little), file)
    model = TorchvisionCnn(**LITTLE, weights=str(file))
    torch.testing.assert_close(model.encode_images(pixels), reference(IMAGENET(pixels)))


class Settings:
    """An object of the training program."""


@pytest.mark.parametrize("zipped", [True, False])
def test_a_robust_model_is_read_past_pickled_objects(zipped, little, reference, pixels, file):
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    content = {
        "model": madry(little, mean, std),
        "schedule": {"lr_lambdas": [lambda epoch: 0.1 * epoch], "base": np.float64(0.1)},
        "args": Settings(),
        "epoch": 90,
    }
    torch.save(content, file, pickle_module=dill, _use_new_zipfile_serialization=zipped)
    model = TorchvisionCnn(**LITTLE, weights=str(file))
    expected = reference(Normalize(mean, std)(pixels))
    torch.testing.assert_close(model.encode_images(pixels), expected)


def test_a_pickle_in_place_of_a_weight_is_named(little, file, tmp_path):
    torch.save(little | {"conv1.weight": Bomb(tmp_path / "gone off")}, file)
    with pytest.raises(WeightsError, match=r"1 missing: conv1\.weight$"):
        TorchvisionCnn(**LITTLE, weights=str(file))
    assert not (tmp_path / "gone off").exists()


def test_half_a_head_is_named(little, file):
    torch.save({k: v for k, v in little.items() if k != "fc.weight"}, file)
    with pytest.raises(WeightsError, match=r"1 missing: fc\.weight$"):
        TorchvisionCnn(**LITTLE, weights=str(file))


def test_a_larger_architecture_is_not_taken_for_a_smaller_one(little, file):
    torch.save(little | {"layer3.2.conv1.weight": torch.zeros(256, 256, 3, 3)}, file)
    with pytest.raises(WeightsError, match=r"1 unexpected: layer3\.2\.conv1\.weight$"):
        TorchvisionCnn(**LITTLE, weights=str(file))


def test_a_checkpoint_may_lack_counts_and_have_a_second_head(little, pixels, file):
    kept = {k: v for k, v in little.items() if not k.endswith("num_batches_tracked")}
    torch.save(kept | {"projection.weight": torch.zeros(5, 512)}, file)
    model = TorchvisionCnn(**LITTLE, weights=str(file))
    whole = torchvision.models.resnet18()
    whole.load_state_dict(little)
    torch.testing.assert_close(model.logits(pixels), whole.eval()(IMAGENET(pixels)))


@pytest.mark.parametrize("content", [[1.0], torch.zeros(3)])
def test_what_is_no_state_dict_is_refused(content, file):
    torch.save(content, file)
    message = f"contains a {type(content).__name__}, not a state dict"
    with pytest.raises(WeightsError, match=message):
        TorchvisionCnn(**LITTLE, weights=str(file))


def test_a_network_that_asks_a_file_for_its_version_is_read(file):
    library = torchvision.models.mnasnet0_5().eval()
    torch.save(library.state_dict(), file)
    model = TorchvisionCnn(
        device=torch.device("cpu"), architecture="mnasnet0_5", weights=str(file), resize=64
    )
    pixels = torch.rand(1, 3, 64, 64)
    inputs = IMAGENET(pixels)
    library.classifier = nn.Identity()
    with torch.no_grad():
        torch.testing.assert_close(model.encode_images(pixels), library(inputs))
