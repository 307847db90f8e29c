import os
from pathlib import Path

import numpy as np
import pytest
import torch
from cifar_nets import ResNet20
from fakes import ConstantModel, PlantedFeatures, Reader, ReadsTheLabel, labelled_images
from PIL import Image
from scipy.special import softmax
from sklearn.datasets import load_digits, make_blobs
from torch import nn
from torch.nn.functional import cross_entropy

from vlbench.data.image_folder import image_folder
from vlbench.data.records import Column, Data, Split, labels, value_column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.generalization import transfer as module
from vlbench.probes.generalization.transfer import Recipe, transfer

CPU = torch.device("cpu")
FAST = {"learning_rate": 0.1, "epochs": 30}


class Thumbnail(Reader):
    """Gives an image of 8 x 8 its pixels."""

    def encode_images(self, pixels):
        return pixels.flatten(1)


def probe(model, data, **params):
    return transfer(model, data, Engine.for_tests(), **params)


def values(outcome):
    return {score.metric: score.value for score in outcome.scores}


def digits():
    """Return scikit-learn's digits as images 8 x 8, every third for testing."""
    bunch = load_digits()
    pixels = np.repeat((bunch.images * 15).astype(np.uint8)[..., None], 3, axis=-1)
    images = [Image.fromarray(image) for image in pixels]
    column = Column("digits", "image", images, range(len(images)))
    whole = Split({"image": column, "label": value_column(bunch.target.tolist())})
    rows = np.arange(len(images))
    splits = {"train": whole.select(rows[rows % 3 > 0]), "test": whole.select(rows[rows % 3 == 0])}
    return Data(splits=splits, classes=[str(digit) for digit in range(10)])


def blobs(*per_class, scale=1.0):
    """Return data, its planted features and the labels of train and test alike."""
    points, label = make_blobs(
        per_class * 2, n_features=6, cluster_std=5.0, shuffle=False, random_state=0
    )
    order = np.argsort(label % len(per_class) + 10 * (label >= len(per_class)), kind="stable")
    data = labelled_images(*per_class)
    return data, torch.tensor(points[order] * scale, dtype=torch.float32)


def by_pytorch(features, label, epochs, recipe):
    """Return the layer that PyTorch's own initialisation, order and Adam give for a global seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        linear = nn.Linear(features.shape[1], int(label.max()) + 1)
        adam = torch.optim.Adam(
            linear.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        for _ in range(epochs):
            for rows in torch.randperm(len(label)).split(recipe.batch_size):
                adam.zero_grad()
                cross_entropy(linear(features[rows]), label[rows]).backward()
                adam.step()
    return linear.requires_grad_(requires_grad=False)


def by_numpy(linear, features, label, orders, recipe):
    """Return weight and bias, [C, D + 1] float64, after Kingma and Ba's Adam from a layer's."""
    x = np.hstack([features.double().numpy(), np.ones((len(label), 1))])
    w = np.hstack([linear["weight"].double().numpy(), linear["bias"].double().numpy()[:, None]])
    target, step = np.eye(len(w))[label.numpy()], 0
    first, second = np.zeros_like(w), np.zeros_like(w)
    for rows in [rows for order in orders for rows in torch.split(order, recipe.batch_size)]:
        error = (softmax(x[rows] @ w.T, axis=1) - target[rows]) / len(rows)
        gradient, step = error.T @ x[rows] + recipe.weight_decay * w, step + 1
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        root = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        w -= recipe.learning_rate * first / (1 - 0.9**step) / root
    return w


def gradient_images(n):
    """Return images 64 x 64 whose red is the column, and whose green is the row."""
    place = np.indices((64, 64), dtype=np.uint8)
    pixels = np.stack([place[1], place[0], place[0] * 0], axis=2)
    return Column("gradient", "image", [Image.fromarray(pixels)] * n, range(n))


def crops(**params):
    """Return 200 augmented gradients, int [200, 64, 64, 3]."""
    column = module.augmented(gradient_images(200), (64, 64), **params)
    return np.array([np.array(image) for image in column]).astype(int)


def test_a_model_that_reads_the_label_is_always_right():
    found = values(probe(ReadsTheLabel(), labelled_images(9, 4, 7), **FAST))
    assert found == {"accuracy": 1.0, "train_accuracy": 1.0}


def test_a_model_that_reads_the_label_is_always_right_on_augmented_images():
    outcome = probe(ReadsTheLabel(), labelled_images(9, 4, 7), augment=True, **FAST)
    assert values(outcome) == {"accuracy_augmented": 1.0}


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("counts", [(5, 5, 5), (1, 12, 2)])
@pytest.mark.parametrize("vector", [(0.3, -0.7, 0.1), (0.0, 0.0, 0.0)])
def test_a_constant_model_scores_chance_not_the_share_of_the_commonest(counts, vector, augment):
    outcome = probe(ConstantModel(vector), labelled_images(*counts), augment=augment)
    assert [score.value for score in outcome.scores] == pytest.approx([1 / 3] * (2 - augment))
    assert outcome.counts == {"n": 15, "ties": 15}
    assert "the features of all test images are the same" in outcome.notes[0]


def test_features_that_differ_by_rounding_are_alike():
    rows = torch.tensor([[100.0, 0.0], [100.00005, 0.00005]])
    assert module.alike(rows)
    assert not module.alike(rows * torch.tensor([[1.0], [1.00001]]))
    assert not module.alike(rows[:1])


@pytest.mark.parametrize("seed", [0, 5])
def test_the_weights_are_those_of_a_plain_pytorch_loop(seed):
    data, features = blobs(40, 30, 50)
    label, recipe = torch.from_numpy(labels(data.splits["train"])), Recipe(32, 1e-2, 5e-4, seed)
    found = module.fit([features[:120]] * 7, label, (3, 6), recipe, CPU)
    linear = by_pytorch(features[:120], label, 7, recipe)
    assert torch.equal(found["weight"], linear.weight)
    assert torch.equal(found["bias"], linear.bias)


def test_the_weights_are_those_of_adam_written_out():
    data, features = blobs(40, 30, 50)
    label, recipe = torch.from_numpy(labels(data.splits["train"])), Recipe(32, 1e-3, 0.1, 3)
    rng = torch.Generator().manual_seed(3)
    torch.rand(3 * 6 + 3, generator=rng)
    orders = [torch.randperm(120, generator=rng) for _ in range(4)]
    start = module.fit([], label, (3, 6), recipe, CPU)
    found = module.fit([features[:120]] * 4, label, (3, 6), recipe, CPU)
    expected = by_numpy(start, features[:120], label, orders, recipe)
    assert found["weight"].numpy() == pytest.approx(expected[:, :6], abs=1e-6)
    assert found["bias"].numpy() == pytest.approx(expected[:, 6], abs=1e-6)


def test_the_accuracy_is_that_of_a_plain_pytorch_loop():
    data, features = blobs(40, 30, 50)
    label = torch.from_numpy(labels(data.splits["train"]))
    linear = by_pytorch(features[:120], label, 20, Recipe(60, 1e-3, 5e-4, 0))
    found = values(probe(PlantedFeatures(features), data))
    right = (linear(features).argmax(1).view(2, -1) == label).double().mean(1)
    assert [found["train_accuracy"], found["accuracy"]] == pytest.approx(right.tolist())
    assert 0 < found["accuracy"] < 1


def test_features_are_taken_at_their_own_length():
    data, features = blobs(40, 30, 50)
    _, short = blobs(40, 30, 50, scale=1e-3)
    assert values(probe(PlantedFeatures(features), data)) != values(
        probe(PlantedFeatures(short), data)
    )


def test_the_global_generator_is_left_as_it_was():
    state = torch.get_rng_state()
    module.fit([torch.eye(2)] * 3, torch.tensor([0, 1]), (2, 2), Recipe(1, 0.1, 0.0, 0), CPU)
    list(module.augmented(gradient_images(3), (64, 64), seed=0, epoch=0))
    assert torch.equal(torch.get_rng_state(), state)


def test_digits_are_told_apart_from_their_pixels():
    found = values(probe(Thumbnail(), digits(), learning_rate=0.01))
    assert 0.93 < found["accuracy"] < found["train_accuracy"] < 1.0


def test_two_augmented_runs_are_the_same_and_another_seed_is_not():
    data = digits().limited(200)
    runs = [probe(Thumbnail(), data, augment=True, epochs=3, seed=seed) for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize("other", [{"seed": 0, "epoch": 1}, {"seed": 1, "epoch": 0}])
def test_each_epoch_and_seed_has_crops_of_its_own_and_the_same_again(other):
    column = gradient_images(3)
    draws = ({"seed": 0, "epoch": 0}, {"seed": 0, "epoch": 0}, other)
    first, again, other = (module.augmented(column, (64, 64), **draw) for draw in draws)
    assert first.key == again.key != other.key
    assert [image.tobytes() for image in first] == [image.tobytes() for image in again]
    assert len({image.tobytes() for image in [*first, *other]}) == 6


def test_a_crop_depends_on_its_row_not_on_what_is_read_before():
    column = module.augmented(gradient_images(5), (64, 64), seed=0, epoch=0)
    whole = [image.tobytes() for image in column]
    assert [image.tobytes() for image in column.select([4, 1])] == [whole[4], whole[1]]


def test_crops_show_8_to_100_percent_of_the_image_and_half_are_mirrored():
    seen = crops(seed=1, epoch=2)
    assert seen.shape == (200, 64, 64, 3)
    width, height = (np.ptp(seen[..., channel], axis=(1, 2)) + 1 for channel in (0, 1))
    share = width * height / 64**2
    # Of uniform shares s, those over 3/4 fit for some of the aspect ratios 3/4..4/3 alone: the mean
    # over s of ln(1/s) / ln(4/3), at most 1, is 0.478.
    assert 0.06 < share.min() < 0.12
    assert 0.9 < share.max() <= 1.0
    assert share.mean() == pytest.approx(0.478, abs=0.05)
    mirrored = (seen[:, 32, 0, 0] > seen[:, 32, -1, 0]).mean()
    assert mirrored == pytest.approx(0.5, abs=0.12)


def test_crops_are_taken_from_an_image_20_pixels_larger(monkeypatch):
    monkeypatch.setattr(module.v2, "RandomResizedCrop", lambda _: module.v2.Identity())
    assert module.augmented(gradient_images(1), (24, 40), seed=0, epoch=0)[0].size == (44, 44)


def test_augmented_images_have_the_size_of_the_adapters_pixels():
    column = module.augmented(gradient_images(1), (24, 40), seed=0, epoch=0)
    assert column[0].size == (40, 24)


def test_logits_that_differ_by_less_than_the_rounding_of_what_they_sum_are_tied():
    probe = {"weight": torch.tensor([[1.0, -1.0]] * 2), "bias": torch.tensor([0.0, 1e-4])}
    x = torch.tensor([[1000.0, 1000.0], [1.0, 1.0]])
    assert module.judge(probe, x, torch.tensor([0, 0])).credit.tolist() == [0.5, 0.0]


def test_each_score_says_what_it_takes_to_judge_it():
    data = labelled_images(5, 5, test=[30, 70])
    accuracy, train = probe(ReadsTheLabel(), data, **FAST).scores
    assert (accuracy.n, accuracy.chance, accuracy.floors) == (100, 0.5, {"majority_class": 0.7})
    assert accuracy.ci95 == pytest.approx((0.9630, 1.0), abs=1e-4)
    assert (train.n, train.chance, train.floors) == (10, 0.5, {"majority_class": 0.5})


def test_many_images_are_judged_in_blocks_alike(monkeypatch):
    data, features = blobs(40, 30, 50)
    whole = probe(PlantedFeatures(features), data)
    monkeypatch.setattr(module, "BLOCK", 21)
    assert probe(PlantedFeatures(features), data) == whole


def test_a_class_without_train_images_is_named():
    data = labelled_images(5, 0, 4, test=[1, 2, 3], classes=["cat", "dog", "eel"])
    with pytest.raises(TooFewRows, match="class 'dog' has 2 test images, but no train image"):
        probe(ReadsTheLabel(), data)


def test_a_class_that_the_test_split_lacks_is_no_obstacle():
    data = labelled_images(5, 5, 5, 0, test=[5, 5, 0, 0])
    assert values(probe(ReadsTheLabel(), data, **FAST))["accuracy"] == 1.0


@pytest.mark.parametrize("params", [{"epochs": 0}, {"batch_size": 0}])
def test_nothing_to_train_with_is_refused(params):
    with pytest.raises(ValueError, match=r"epochs .* and batch_size .*: both must be 1 or more"):
        probe(ReadsTheLabel(), labelled_images(2, 2), **params)


@pytest.fixture(scope="module")
def cifar():
    """Return the trained network, and 2,000 train and 1,000 test images."""
    folder = Path(os.environ.get("VLBENCH_DATA", "/nowhere"))
    weights = folder / "weights/cifar10_resnet_akamaster/resnet20-12fca82f.th"
    images = folder / "cifar10_image_folder"
    if not (weights.is_file() and images.is_dir()):
        pytest.skip("VLBENCH_DATA names no folder with CIFAR-10 images and the ResNet-20's weights")
    return ResNet20(weights), image_folder(root=images)


@pytest.mark.slow
def test_a_probe_of_a_trained_network_is_about_as_good_as_its_own_head(cifar):
    model, data = cifar
    features = Engine.for_tests().features(model.encode_images, data.splits["test"]["image"])
    own = model.linear(features).argmax(1).numpy() == labels(data.splits["test"])
    found = values(probe(model, data))
    assert own.mean() == pytest.approx(0.81, abs=0.02)
    assert found["accuracy"] == pytest.approx(own.mean(), abs=0.05)
    assert found["train_accuracy"] < 1.0
