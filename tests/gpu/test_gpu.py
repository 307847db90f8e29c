"""The same scores as on the CPU, the same bytes twice, and memory used to its end."""

import numpy as np
import pytest
import torch
from PIL import Image
from scoring import with_scores
from torch import nn

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine, devices
from vlbench.engine.devices import ComputeSettings, loader_workers
from vlbench.engine.passes import _load, _Preprocessed
from vlbench.engine.tuning import SIZES, tune
from vlbench.probes.generalization import few_shot as few_shot_probe
from vlbench.probes.generalization.robustness import robustness
from vlbench.probes.generalization.rpgd import Descent

few_shot = with_scores(few_shot_probe.few_shot)

CPU = torch.device("cpu")
CLASSES, SIDE = 4, 24
ATTACK = {
    "epsilons": {"linf": [0.004, 0.02], "l2": [0.2]},
    "target_offset": 1,
    "sample": None,
    "attack": Descent(steps=5, rel_stepsize=0.5, batch_size=16),
}


class Net:
    """Convolutions with seeded weights, as an adapter."""

    def __init__(self, device):
        rng = torch.Generator().manual_seed(0)
        layers = [nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(256, CLASSES)
        for weight in [*self.body.parameters(), *self.head.parameters()]:
            weight.data = torch.randn(weight.shape, generator=rng) * weight[0].numel() ** -0.5
        self.body.to(device)
        self.head.to(device)

    def preprocess(self, image):
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255

    def encode_images(self, pixels):
        return self.body(pixels - 0.5)

    def logits(self, pixels):
        return self.head(self.encode_images(pixels))

    def class_names(self):
        return [str(i) for i in range(CLASSES)]


def split(count, seed):
    """Return noise, of another brightness and colour for each class."""
    rng = np.random.default_rng(seed)
    tint = np.random.default_rng(9).integers(0, 120, (CLASSES, 1, 1, 3))
    label = [i % CLASSES for i in range(count)]
    pixels = [(rng.integers(0, 136, (SIDE, SIDE, 3)) + tint[i]).astype(np.uint8) for i in label]
    stored = [Image.fromarray(one) for one in pixels]
    images = Column(f"noise {count} {seed}", "image", stored, range(count))
    return Split({"image": images, "label": value_column(label)})


@pytest.fixture(scope="module")
def data():
    splits = {"train": split(64, 0), "test": split(96, 1)}
    return Data(splits=splits, classes=[str(i) for i in range(CLASSES)])


def engine_on(device, **options):
    devices.set_up(device)
    return Engine(ComputeSettings(device, batch_size=16, **options))


def features(device, data, **options):
    net = Net(device)
    return engine_on(device, **options).features(net.encode_images, data.splits["test"]["image"])


def attacked(device, data):
    outcome = robustness(Net(device), data, engine_on(device), **ATTACK)
    return [score.value for score in outcome.scores]


def test_features_are_those_of_the_cpu_within_rounding(device, data):
    expected = features(CPU, data)
    # TF32 would leave about 1e-3 of the largest.
    torch.testing.assert_close(
        features(device, data), expected, rtol=0, atol=1e-5 * float(expected.abs().max())
    )


def test_scores_are_those_of_the_cpu_within_rounding(device, data):
    rule = {"shots": [1, 5], "trials": 3, "seed": 0}
    found, expected = (
        [score.value for score in few_shot(Net(d), data, engine_on(d), **rule).scores]
        for d in (device, CPU)
    )
    # One test image may fall on the other side.
    assert found == pytest.approx(expected, abs=1.5 / 96)


def test_attacks_succeed_as_on_the_cpu(device, data):
    # Random starts differ between devices.
    assert attacked(device, data) == pytest.approx(attacked(CPU, data), abs=0.1)


def test_the_same_bytes_come_out_twice(device, data):
    assert torch.equal(features(device, data), features(device, data))
    assert attacked(device, data) == attacked(device, data)


def test_features_do_not_depend_on_the_number_of_workers(device, data):
    assert torch.equal(features(device, data, workers=2), features(device, data))


def test_float32_is_float32(gpu):
    devices.set_up(gpu)
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(512, 512, generator=rng) for _ in range(2))
    kernel = torch.randn(64, 64, 3, 3, generator=rng)
    maps = torch.randn(4, 64, 32, 32, generator=rng)
    pairs = [
        (x.to(gpu) @ y.to(gpu), x.double() @ y.double()),
        (
            nn.functional.conv2d(maps.to(gpu), kernel.to(gpu)),
            nn.functional.conv2d(maps.double(), kernel.double()),
        ),
    ]
    for found, exact in pairs:
        assert (found.cpu() - exact).abs().max() < 1e-5 * exact.abs().max()
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.deterministic


class Greedy(Net):
    """Takes so much memory per image that 100 images fill the GPU."""

    def encode_images(self, pixels):
        each = torch.cuda.get_device_properties(pixels.device).total_memory // 100
        held = torch.empty(len(pixels), each, dtype=torch.uint8, device=pixels.device)
        return held[:, :8].float()


def test_the_batch_size_is_the_largest_that_fits(gpu, data):
    column = data.splits["test"]["image"]
    settings = tune(ComputeSettings(gpu), Greedy(gpu).encode_images, column)
    # Other programs may hold memory, too.
    assert settings.batch_size in {32, 64}
    encoded = Engine(settings).features(Greedy(gpu).encode_images, column)
    assert encoded.shape == (96, 8)


def test_a_batch_size_is_measured(device, data):
    column = data.splits["test"]["image"]
    settings = tune(ComputeSettings(device), Net(device).encode_images, column)
    assert settings.batch_size in SIZES


def test_workers_hand_over_pinned_batches(gpu, data):
    assert loader_workers(gpu) >= 1
    rows = _Preprocessed(data.splits["test"]["image"], Net(gpu).preprocess)
    batches = [list(range(16)), list(range(16, 32))]
    loaded = list(_load(rows, batches, workers=2, pinned=True))
    assert [values.is_pinned() for _, values in loaded] == [True, True]
