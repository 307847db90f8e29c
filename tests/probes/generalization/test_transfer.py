import os
from pathlib import Path

import numpy as np
import pytest
import torch
from cifar_nets import ResNet20
from fakes import ConstantModel, PlantedFeatures, Reader, ReadsTheLabel, labelled_images
from PIL import Image
from sklearn.datasets import load_digits, make_blobs

from vlbench.data.image_folder import image_folder
from vlbench.data.records import Column, Data, Split, labels, value_column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.nets.linear import LinearTraining, train_linear_probe
from vlbench.probes.generalization.transfer import transfer

FAST = {"learning_rate": 0.1, "epochs": 30}


class Thumbnail(Reader):
    """Gives an image of 8 x 8 its pixels."""

    def encode_images(self, pixels):
        return pixels.flatten(1)


def probe(model, data, *, augment=False, **training):
    return transfer(
        model, data, Engine.for_tests(), training=LinearTraining(**training), augment=augment
    )


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


def test_a_model_that_reads_the_label_is_always_right():
    found = values(probe(ReadsTheLabel(), labelled_images(9, 4, 7), **FAST))
    assert found == {"accuracy": 1.0, "train_accuracy": 1.0}


def test_a_model_that_reads_the_label_is_always_right_on_augmented_images():
    outcome = probe(ReadsTheLabel(), labelled_images(9, 4, 7), augment=True, **FAST)
    assert values(outcome) == {"accuracy_augmented": 1.0}


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("counts", [(5, 5, 5), (1, 12, 2)])
@pytest.mark.parametrize("vector", [(0.3, -0.7, 0.1), (0.0, 0.0, 0.0)])
def test_a_constant_model_scores_chance_not_the_frequency_of_the_largest_class(
    counts, vector, augment
):
    outcome = probe(ConstantModel(vector), labelled_images(*counts), augment=augment)
    assert [score.value for score in outcome.scores] == pytest.approx([1 / 3] * (2 - augment))
    assert outcome.counts == {"n": 15, "ties": 15}
    assert "the features of all test images are the same" in outcome.notes[0]


def test_the_accuracy_is_that_of_the_probe_trained_on_the_train_images():
    data, features = blobs(40, 30, 50)
    label = torch.from_numpy(labels(data.splits["train"]))
    training, device = LinearTraining(20, 60, 1e-3, 5e-4, 0), torch.device("cpu")
    linear = train_linear_probe([features[:120]] * 20, label, (3, 6), training, device)
    logits = features @ linear["weight"].T + linear["bias"]
    found = values(probe(PlantedFeatures(features), data))
    right = (logits.argmax(1).view(2, -1) == label).double().mean(1)
    assert [found["train_accuracy"], found["accuracy"]] == pytest.approx(right.tolist())
    assert 0 < found["accuracy"] < 1


def test_features_are_taken_at_their_own_length():
    data, features = blobs(40, 30, 50)
    _, short = blobs(40, 30, 50, scale=1e-3)
    assert values(probe(PlantedFeatures(features), data)) != values(
        probe(PlantedFeatures(short), data)
    )


def test_digits_are_told_apart_from_their_pixels():
    found = values(probe(Thumbnail(), digits(), learning_rate=0.01))
    assert 0.93 < found["accuracy"] < found["train_accuracy"] < 1.0


def test_two_augmented_runs_are_the_same_and_another_seed_is_not():
    data = digits().limited(60)
    runs = [probe(Thumbnail(), data, augment=True, epochs=2, seed=seed) for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_each_score_says_what_it_takes_to_judge_it():
    data = labelled_images(5, 5, test=[30, 70])
    accuracy, train = probe(ReadsTheLabel(), data, **FAST).scores
    assert (accuracy.n, accuracy.chance, accuracy.floors) == (100, 0.5, {"majority_class": 0.7})
    assert accuracy.ci95 == pytest.approx((0.9630, 1.0), abs=1e-4)
    assert (train.n, train.chance, train.floors) == (10, 0.5, {"majority_class": 0.5})


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
    """Return the trained network, and 600 train and 600 test images."""
    folder = Path(os.environ.get("VLBENCH_DATA", "/nowhere"))
    weights = folder / "weights/cifar10_resnet_akamaster/resnet20-12fca82f.th"
    images = folder / "cifar10_image_folder"
    if not (weights.is_file() and images.is_dir()):
        pytest.skip("VLBENCH_DATA names no folder with CIFAR-10 images and the ResNet-20's weights")
    return ResNet20(weights), image_folder(root=images).limited(600)


@pytest.mark.slow
def test_a_probe_of_a_trained_network_is_about_as_good_as_its_own_head(cifar):
    model, data = cifar
    features = Engine.for_tests().features(model.encode_images, data.splits["test"]["image"])
    own = model.linear(features).argmax(1).numpy() == labels(data.splits["test"])
    found = values(probe(model, data))
    assert own.mean() == pytest.approx(0.81, abs=0.035)  # two standard errors
    assert found["accuracy"] == pytest.approx(own.mean(), abs=0.05)
    assert found["train_accuracy"] < 1.0
