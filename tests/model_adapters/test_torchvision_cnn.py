from pathlib import Path

import dill
import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from torchvision.transforms import Normalize

from vlbench.check import check_adapter
from vlbench.errors import CannotDo, SpecError, UnknownNameError, WeightsError
from vlbench.resolve import load_object

FOLDER = Path(__file__).parents[2] / "model_adapters"
TorchvisionCnn = load_object("torchvision_cnn:TorchvisionCnn", [FOLDER])
CPU = torch.device("cpu")
SMALL = {"device": CPU, "resize": 64}
IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def draw_state(name, seed=0):
    """Weights in which every BatchNorm matters."""
    torch.manual_seed(seed)
    model = torchvision.models.get_model(name)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.0)
            nn.init.uniform_(layer.bias, -0.1, 0.1)
            nn.init.uniform_(layer.running_mean, -0.1, 0.1)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return model.state_dict()


@pytest.fixture(scope="module")
def state():
    return draw_state("resnet50")


@pytest.fixture(scope="module")
def little():
    return draw_state("resnet18")


@pytest.fixture(scope="module")
def pixels():
    return torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def reference(state):
    """The paper's model as its authors load it: torchvision's, with the head taken off."""
    model = torchvision.models.resnet50()
    model.load_state_dict(state)
    model.fc = nn.Identity()
    return model.eval().requires_grad_(requires_grad=False)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "checkpoint.pth"
    yield path
    path.unlink(missing_ok=True)


def prefixed(state, prefix):
    return {f"{prefix}{key}": value for key, value in state.items()}


def headless(state):
    return {key: value for key, value in state.items() if not key.startswith("fc.")}


def madry(state, mean, std):
    """The state dict of an AttackerModel in DataParallel: the network stands in it twice."""
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
def test_a_published_layout_gives_the_features_of_torchvision(
    layout, state, reference, pixels, file
):
    torch.save(LAYOUTS[layout](state), file)
    model = TorchvisionCnn(**SMALL, weights=str(file))
    features = model.encode_images(pixels)
    assert features.shape == (2, 2048)
    torch.testing.assert_close(features, reference(IMAGENET(pixels)))


class Settings:
    """An object of the training program."""


@pytest.mark.parametrize("zipped", [True, False])
def test_a_robust_model_is_read_past_pickled_objects(zipped, state, reference, pixels, file):
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    content = {
        "model": madry(state, mean, std),
        "schedule": {"lr_lambdas": [lambda epoch: 0.1 * epoch], "base": np.float64(0.1)},
        "args": Settings(),
        "epoch": 90,
    }
    torch.save(content, file, pickle_module=dill, _use_new_zipfile_serialization=zipped)
    model = TorchvisionCnn(**SMALL, weights=str(file))
    expected = reference(Normalize(mean, std)(pixels))
    torch.testing.assert_close(model.encode_images(pixels), expected)


class Bomb:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_runs_nothing(zipped, little, pixels, file, tmp_path):
    content = {"model": little, "extra": [Bomb(tmp_path / "gone off")]}
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    model = TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))
    assert model.encode_images(pixels).shape == (2, 512)
    assert not (tmp_path / "gone off").exists()


def test_a_pickle_in_place_of_a_weight_is_named(little, file, tmp_path):
    torch.save(little | {"conv1.weight": Bomb(tmp_path / "gone off")}, file)
    with pytest.raises(WeightsError, match=r"1 missing: conv1\.weight$"):
        TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))
    assert not (tmp_path / "gone off").exists()


def test_logits_are_those_of_torchvision(little, pixels, tmp_path):
    save_file(little, tmp_path / "little.safetensors")
    weights = str(tmp_path / "little.safetensors")
    model = TorchvisionCnn(**SMALL, architecture="resnet18", weights=weights)
    whole = torchvision.models.resnet18()
    whole.load_state_dict(little)
    torch.testing.assert_close(model.logits(pixels), whole.eval()(IMAGENET(pixels)))


def test_the_classes_are_imagenets():
    names = TorchvisionCnn(**SMALL, architecture="resnet18", weights="random").class_names()
    assert len(names) == 1000
    assert (names[0], names[207], names[999]) == ("tench", "golden retriever", "toilet tissue")


def test_a_checkpoint_without_a_head_does_not_classify(little, pixels, file):
    torch.save(headless(little), file)
    model = TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))
    with pytest.raises(CannotDo, match="no classification head"):
        model.logits(pixels)
    with pytest.raises(CannotDo, match="no classification head"):
        model.class_names()


def test_other_classes_have_logits_but_no_names(little, pixels, file):
    head = {"fc.weight": torch.zeros(7, 512), "fc.bias": torch.arange(7.0)}
    torch.save(little | head, file)
    model = TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))
    assert model.logits(pixels).tolist() == [[0, 1, 2, 3, 4, 5, 6]] * 2
    with pytest.raises(CannotDo, match="this checkpoint's 7 classes are not known"):
        model.class_names()


def test_one_missing_weight_is_named(little, file):
    kept = {k: v for k, v in little.items() if k != "layer2.0.bn1.running_var"}
    torch.save({"state_dict": prefixed(kept, "module.")}, file)
    with pytest.raises(WeightsError, match=r"1 missing: layer2\.0\.bn1\.running_var$"):
        TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))


def test_half_a_head_is_named(little, file):
    torch.save({k: v for k, v in little.items() if k != "fc.weight"}, file)
    with pytest.raises(WeightsError, match=r"1 missing: fc\.weight$"):
        TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))


def test_a_weight_of_another_shape_is_named(little, file):
    torch.save(little | {"conv1.weight": torch.zeros(64, 3, 3, 3)}, file)
    with pytest.raises(WeightsError, match=r"1 of another shape: conv1\.weight \(64, 3, 3, 3\)"):
        TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))


def test_a_larger_architecture_is_not_taken_for_a_smaller_one(little, file):
    torch.save(little | {"layer3.2.conv1.weight": torch.zeros(256, 256, 3, 3)}, file)
    with pytest.raises(WeightsError, match=r"1 unexpected: layer3\.2\.conv1\.weight$"):
        TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))


def test_a_checkpoint_may_lack_counts_and_have_a_second_head(little, pixels, file):
    kept = {k: v for k, v in little.items() if not k.endswith("num_batches_tracked")}
    torch.save(kept | {"projection.weight": torch.zeros(5, 512)}, file)
    model = TorchvisionCnn(**SMALL, architecture="resnet18", weights=str(file))
    whole = torchvision.models.resnet18()
    whole.load_state_dict(little)
    torch.testing.assert_close(model.logits(pixels), whole.eval()(IMAGENET(pixels)))


@pytest.mark.parametrize("content", [[1.0], torch.zeros(3)])
def test_what_is_no_state_dict_is_refused(content, file):
    torch.save(content, file)
    with pytest.raises(WeightsError, match=f"holds a {type(content).__name__}, not a state dict"):
        TorchvisionCnn(**SMALL, weights=str(file))


def test_what_is_no_checkpoint_is_refused(file):
    file.write_text("<html>404</html>")
    with pytest.raises(WeightsError, match="cannot be read as weights"):
        TorchvisionCnn(**SMALL, weights=str(file))


def test_an_absent_file_says_where_to_get_it():
    with pytest.raises(WeightsError, match=r"nowhere\.pt; where to get it: the authors; .*=PATH"):
        TorchvisionCnn(**SMALL, weights="nowhere.pt", source="the authors")


def test_an_unknown_tag_lists_those_there_are():
    with pytest.raises(WeightsError, match="tags IMAGENET1K_V1, IMAGENET1K_V2, random"):
        TorchvisionCnn(**SMALL, weights="IMAGENET1K_V3")


def test_an_unknown_architecture_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean resnet50"):
        TorchvisionCnn(**SMALL, architecture="resnet5")


def test_a_network_that_ends_in_a_convolution_is_refused():
    with pytest.raises(SpecError, match="squeezenet1_1 of torchvision has no linear layer"):
        TorchvisionCnn(**SMALL, architecture="squeezenet1_1", weights="random")


@pytest.fixture
def torch_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


@pytest.mark.usefixtures("torch_cache")
def test_weights_that_cannot_be_downloaded_can_be_given():
    message = r"ResNet18_Weights.IMAGENET1K_V1 cannot .*: this run is offline; .* weights=PATH"
    with pytest.raises(WeightsError, match=message):
        TorchvisionCnn(**SMALL, architecture="resnet18")


@pytest.mark.usefixtures("torch_cache")
def test_a_failed_download_is_one_error(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(torchvision.models.ResNet18_Weights.IMAGENET1K_V1.value, "url", "file:///x")
    with pytest.raises(WeightsError, match=r"cannot be downloaded from file:///x: .*=PATH"):
        TorchvisionCnn(**SMALL, architecture="resnet18")


def test_downloaded_weights_are_found_offline(torch_cache, little, pixels):
    torch.save(little, torch_cache / "resnet18-f37072fd.pth")
    model = TorchvisionCnn(**SMALL, architecture="resnet18")
    whole = torchvision.models.resnet18()
    whole.load_state_dict(little)
    torch.testing.assert_close(model.logits(pixels), whole.eval()(IMAGENET(pixels)))


def test_the_features_are_what_the_last_linear_layer_reads(pixels):
    options = {"architecture": "mobilenet_v3_small", "weights": "random", "init_seed": 3}
    model = TorchvisionCnn(**SMALL, **options)
    torch.manual_seed(3)
    whole = torchvision.models.mobilenet_v3_small().eval()
    whole.classifier[-1] = nn.Identity()
    torch.testing.assert_close(model.encode_images(pixels), whole(IMAGENET(pixels)))


def test_random_weights_leave_the_global_generator_as_it_was():
    before = torch.get_rng_state()
    TorchvisionCnn(**SMALL, architecture="resnet18", weights="random")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def photo():
    noise = np.random.default_rng(0).integers(0, 256, (80, 120, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def seen(photo, **options):
    model = TorchvisionCnn(device=CPU, architecture="resnet18", weights="random", **options)
    return (model.preprocess(photo) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def test_the_centre_of_the_resized_picture_is_seen(photo):
    expected = photo.resize((60, 40), Image.Resampling.BICUBIC).crop((14, 4, 46, 36))
    np.testing.assert_array_equal(seen(photo, resize=40, crop=32), np.asarray(expected))


def test_a_squashed_picture_is_seen_whole(photo):
    expected = photo.resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(seen(photo, resize=32, squash=True), np.asarray(expected))


def test_the_papers_size_is_the_default(photo):
    assert seen(photo).shape == (256, 256, 3)


def test_a_crop_beyond_the_picture_is_refused(photo):
    with pytest.raises(SpecError, match="crop 256 is larger than resize 224"):
        seen(photo, resize=224, crop=256)


def test_the_contract_holds(little, file):
    torch.save(little, file)
    model = TorchvisionCnn(device=CPU, architecture="resnet18", weights=str(file), resize=32)
    assert [finding for finding in check_adapter(model) if not finding.ok] == []


def test_the_contract_holds_without_a_head(little, file):
    torch.save(headless(little), file)
    model = TorchvisionCnn(device=CPU, architecture="resnet18", weights=str(file), resize=32)
    findings = check_adapter(model, without=["Classifier"])
    assert [finding for finding in findings if not finding.ok] == []
