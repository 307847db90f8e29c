"""A real network on real pictures, through a source as a user would write it."""

import numpy as np
import pytest
import torch
from sklearn.cluster import SpectralClustering
from sources import write

import vlbench
from vlbench.code.functions import load_object
from vlbench.data.image_folder import image_folder

ADAPTER = '''\
"""ResNet-20 for CIFAR-10 (He et al. 2015), weights of akamaster/pytorch_resnet_cifar10."""

import torch
from torch import nn
from torch.nn.functional import pad, relu
from torchvision.transforms.functional import normalize, to_tensor

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Block(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.stride, self.extra = stride, width - inside

    def forward(self, x):
        y = self.bn2(self.conv2(relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            x = pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.extra // 2, self.extra // 2))
        return relu(y + x)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(3)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def features(self, x):
        x = relu(self.bn1(self.conv1(x)))
        return self.layer3(self.layer2(self.layer1(x))).mean((2, 3))


class Cifar:
    def __init__(self, *, device: torch.device, weights: str):
        state = torch.load(weights, map_location=device, weights_only=True)["state_dict"]
        self.net = ResNet20()
        self.net.load_state_dict({k.removeprefix("module."): v for k, v in state.items()})
        self.net.eval().to(device)

    def preprocess(self, image):
        return to_tensor(image)

    def encode_images(self, pixels):
        return self.net.features(normalize(pixels, MEAN, STD))

    def class_names(self):
        return "airplane automobile bird cat deer dog frog horse ship truck".split()

    def logits(self, pixels):
        return self.net.linear(self.encode_images(pixels))
'''

FEW_SHOT = """\
version: 1
probe: few_shot
data: {loader: "vlbench.data.image_folder:image_folder", root: $VLBENCH_DATA/cifar10_image_folder}
params: {shots: [1, 5], trials: 3, seed: 0}
primary: {metric: accuracy, at: {shots: 5}}
"""
CLUSTERING = """\
version: 1
probe: clustering
data: {loader: "vlbench.data.image_folder:image_folder", root: $VLBENCH_DATA/cifar10_image_folder}
primary: {metric: accuracy}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resnet")
    write(folder / "model_adapters" / "cifar.py", ADAPTER)
    write(folder / "model_adapters" / "models.yaml", 'resnet20: {adapter: "cifar:Cifar"}\n')
    write(folder / "tasks" / "few_shot_jpeg.yaml", FEW_SHOT)
    write(folder / "tasks" / "clustering_jpeg.yaml", CLUSTERING)
    return folder


@pytest.fixture
def weights(real_data):
    folder = real_data / "weights" / "cifar10_resnet_akamaster"
    return str(next(file for file in folder.iterdir() if file.suffix in {".th", ".pt", ".pth"}))


@pytest.fixture
def adapter(source, weights):
    made = load_object("cifar:Cifar", [source / "model_adapters"])
    return made(device=torch.device("cpu"), weights=weights)


@pytest.fixture
def data(real_data):
    return image_folder(root=real_data / "cifar10_image_folder")


def features(adapter, split):
    batches = [range(i, min(i + 32, len(split))) for i in range(0, len(split), 32)]
    pixels = (torch.stack([adapter.preprocess(split["image"][i]) for i in b]) for b in batches)
    with torch.no_grad():
        return torch.cat([adapter.encode_images(p) for p in pixels]).numpy()


def evaluate(source, weights, task):
    options = {"include_path": [source], "model_args": {"weights": weights}}
    (result,) = vlbench.evaluate("resnet20", task, **options)
    assert result.status == "ok", result.reason
    return {(s.metric, s.at.get("shots")): s.value for s in result.scores}


@pytest.mark.nightly
def test_the_networks_own_accuracy_is_what_sources_says_of_this_lossy_copy(adapter, data):
    test = data.splits["test"]
    logits = features(adapter, test) @ adapter.net.linear.weight.detach().numpy().T
    guesses = (logits + adapter.net.linear.bias.detach().numpy()).argmax(1)
    assert np.mean(guesses == np.array(list(test["label"]))) == pytest.approx(0.81, abs=0.03)


@pytest.mark.nightly
def test_few_shot_equals_numpy_on_the_same_features(source, weights, adapter, data):
    train, test = (features(adapter, data.splits[name]) for name in ("train", "test"))
    train, test = (f / np.linalg.norm(f, axis=1, keepdims=True) for f in (train, test))
    known, asked = (np.array(list(data.splits[name]["label"])) for name in ("train", "test"))
    rng, found = np.random.default_rng(0), {1: [], 5: []}
    for order in [rng.permutation(len(known)) for _ in range(3)]:
        for shots, accuracies in found.items():
            rows = [[i for i in order if known[i] == c][:shots] for c in range(10)]
            means = np.stack([train[r].mean(0) for r in rows])
            accuracies.append(np.mean((test @ means.T).argmax(1) == asked))
    scores = evaluate(source, weights, "few_shot_jpeg")
    assert scores["accuracy", 1] == pytest.approx(np.mean(found[1]), abs=1e-12)
    assert scores["accuracy", 5] == pytest.approx(np.mean(found[5]), abs=1e-12)


@pytest.mark.nightly
def test_clustering_equals_scikit_learn_on_the_same_features(source, weights, adapter, data):
    vectors = features(adapter, data.splits["test"])
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    clusters = SpectralClustering(10, affinity="precomputed", random_state=0).fit_predict(
        np.abs(vectors @ vectors.T)
    )
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (clusters, np.array(list(data.splits["test"]["label"]))), 1)
    right, left = 0, counts.copy()
    for _ in range(10):
        cluster, label = np.unravel_index(left.argmax(), left.shape)
        right += counts[cluster, label]
        left[cluster], left[:, label] = -1, -1
    scores = evaluate(source, weights, "clustering_jpeg")
    assert scores["accuracy", None] == pytest.approx(right / counts.sum(), abs=1e-12)
