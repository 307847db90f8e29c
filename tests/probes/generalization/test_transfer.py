import os
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import ConstantModel, PlantedFeatures, Reader, ReadsTheLabel, labelled_images
from PIL import Image
from scoring import metric_values as values
from scoring import with_scores
from sklearn.datasets import load_digits, make_blobs
from tiny_joint import CPU, adapter
from torchvision.transforms import v2

from vlbench.data.image_folder import image_folder
from vlbench.data.records import Column, Data, Split, labels, value_column
from vlbench.engine import Engine
from vlbench.errors import UnknownNameError
from vlbench.probes.generalization import linear
from vlbench.probes.generalization import transfer as module
from vlbench.probes.generalization import transfer as transfer_probe
from vlbench.probes.generalization.linear import LinearTraining, train_linear_probe
from vlbench.probes.generalization.transfer import augment_images, augmented_features

transfer = with_scores(transfer_probe.transfer)

FAST = {"learning_rate": 0.1, "epochs": 30}


class Thumbnail(Reader):
    """Gives an image of 8 x 8 its pixels."""

    def encode_images(self, pixels):
        return pixels.flatten(1)


def probe(model, data, *, augment=False, **training):
    options = {"training": LinearTraining(**training), "augment": augment}
    return transfer(model, data, Engine.for_tests(), **options)


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


def blobs(*per_class):
    """Return data, its planted features and the labels of train and test alike."""
    drawn = {"n_features": 6, "cluster_std": 5.0, "shuffle": False, "random_state": 0}
    points, label = make_blobs(per_class * 2, **drawn)
    order = np.argsort(label % len(per_class) + 10 * (label >= len(per_class)), kind="stable")
    data = labelled_images(*per_class)
    return data, torch.tensor(points[order], dtype=torch.float32)


def test_several_seeds_are_trials_whose_mean_is_the_score():
    data, features = blobs(40, 30, 50)
    model = PlantedFeatures(features)
    several = probe(model, data, seeds=3, epochs=2)
    alone = [probe(model, data, seed=seed, epochs=2) for seed in range(3)]
    assert several.scores[0].draws == [values(one)["accuracy"] for one in alone]
    assert values(several)["accuracy"] == pytest.approx(np.mean(several.scores[0].draws))
    assert sorted(set(several.items["trial"].to_pylist())) == [0, 1, 2]
    assert alone[0].notes[0].startswith("one training")
    assert ["steps of Adam" in note for note in several.notes] == [True]


def test_steps_of_adam_that_are_too_few_are_said():
    few = probe(Thumbnail(), digits(), seeds=2)
    (note,) = few.notes
    assert note.startswith("400 steps of Adam move a weight by about 0.4 at most: the probe may be")
    assert note.endswith("; `training: {optimizer: lbfgs}` reaches it")
    (augmented,) = probe(Thumbnail(), digits(), seeds=2, epochs=1, augment=True).notes
    assert augmented.endswith("; more epochs come nearer")
    enough = probe(Thumbnail(), digits(), seeds=2, learning_rate=0.01)
    assert enough.notes == []
    assert values(few)["accuracy"] < values(enough)["accuracy"]


@pytest.mark.parametrize(
    ("augment", "metrics"),
    [(False, ["accuracy", "train_accuracy"]), (True, ["accuracy_augmented"])],
)
def test_a_model_that_reads_the_label_is_always_right_on_augmented_images_too(augment, metrics):
    found = values(probe(ReadsTheLabel(), labelled_images(9, 4, 7), augment=augment, **FAST))
    assert found == dict.fromkeys(metrics, 1.0)


@pytest.mark.parametrize("augment", [False, True])
def test_a_constant_model_scores_chance_not_the_frequency_of_the_largest_class(augment):
    outcome = probe(ConstantModel(), labelled_images(1, 12, 2), augment=augment)
    assert [score.value for score in outcome.scores] == pytest.approx([1 / 3] * (2 - augment))
    assert outcome.counts == {"n": 15, "choices": 15, "ties": 15}
    assert "all test images have identical features," in outcome.notes[0]


def logits_of(features, label):
    """Return the logits of a probe that is trained on the first 120 features."""
    training, device = LinearTraining(20, 60, 1e-3, 5e-4, 0), torch.device("cpu")
    linear = train_linear_probe([features[:120]] * 20, label, (3, 6), training, device)
    return features @ linear["weight"].T + linear["bias"]


def test_the_accuracy_is_that_of_the_probe_trained_on_the_train_images():
    data, features = blobs(40, 30, 50)
    label = torch.from_numpy(labels(data.splits["train"]))
    found = values(probe(PlantedFeatures(features), data))
    right = (logits_of(features, label).argmax(1).view(2, -1) == label).double().mean(1)
    assert [found["train_accuracy"], found["accuracy"]] == pytest.approx(right.tolist())
    assert 0 < found["accuracy"] < 1


def test_the_floor_of_the_train_accuracy_is_what_a_probe_remembers_of_shuffled_labels():
    data, features = blobs(40, 30, 50)
    label = torch.from_numpy(labels(data.splits["train"]))
    shuffled = label[torch.from_numpy(np.random.default_rng(0).permutation(120))]
    _, train = probe(PlantedFeatures(features), data).scores
    floor = (logits_of(features, shuffled)[:120].argmax(1) == shuffled).double().mean()
    assert train.floors["shuffled_labels"] == pytest.approx(float(floor))
    assert train.chance is None


def test_noise_is_remembered_about_as_well_as_shuffled_labels():
    features = torch.randn(400, 50, generator=torch.Generator().manual_seed(0))
    _, train = probe(PlantedFeatures(features), labelled_images(100, 100), **FAST).scores
    assert train.value > 0.6
    assert train.value == pytest.approx(train.floors["shuffled_labels"], abs=0.1)


def test_features_are_taken_at_their_own_length():
    data, features = blobs(40, 30, 50)
    long, short = (values(probe(PlantedFeatures(x), data)) for x in (features, 1e-3 * features))
    assert long != short


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
    assert (train.n, train.chance, train.floors["majority_class"]) == (10, None, 0.5)


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
    network = adapter("cifar_resnets:ResNet20")(device=CPU, weights=str(weights))
    return network, image_folder(root=images).limited(600)


def test_a_probe_of_a_trained_network_is_about_as_good_as_its_own_head(cifar):
    model, data = cifar
    features = Engine.for_tests().features(model.encode_images, data.splits["test"]["image"])
    own = model.model.linear(features).argmax(1).numpy() == labels(data.splits["test"])
    found = values(probe(model, data))
    assert own.mean() == pytest.approx(0.81, abs=0.035)  # two standard errors
    assert found["accuracy"] == pytest.approx(own.mean(), abs=0.05)
    assert found["train_accuracy"] < 1.0


def gradient_images(n):
    """Return images 64 x 64 whose red is the column, and whose green is the row."""
    place = np.indices((64, 64), dtype=np.uint8)
    pixels = np.stack([place[1], place[0], place[0] * 0], axis=2)
    return Column("gradient", "image", [Image.fromarray(pixels)] * n, range(n))


def crops(**params):
    """Return 200 augmented gradients, int [200, 64, 64, 3]."""
    column = augment_images(gradient_images(200), (64, 64), **params)
    return np.array([np.array(image) for image in column]).astype(int)


@pytest.mark.parametrize("other", [{"seed": 0, "epoch": 1}, {"seed": 1, "epoch": 0}])
def test_each_epoch_and_seed_has_crops_of_its_own_and_the_same_again(other):
    column = gradient_images(3)
    draws = ({"seed": 0, "epoch": 0}, {"seed": 0, "epoch": 0}, other)
    first, again, other = (augment_images(column, (64, 64), **draw) for draw in draws)
    assert first.key == again.key != other.key
    assert [image.tobytes() for image in first] == [image.tobytes() for image in again]
    assert len({image.tobytes() for image in [*first, *other]}) == 6


def test_a_crop_depends_on_its_row_not_on_what_is_read_before_or_torchs_own_generator():
    column = augment_images(gradient_images(5), (64, 64), seed=0, epoch=0)
    state = torch.get_rng_state()
    whole = [image.tobytes() for image in column]
    assert torch.equal(torch.get_rng_state(), state)
    assert [image.tobytes() for image in column.select([4, 1])] == [whole[4], whole[1]]


def test_crops_show_8_to_100_percent_of_the_image_and_half_are_mirrored():
    seen = crops(seed=1, epoch=2)
    assert seen.shape == (200, 64, 64, 3)
    width, height = (np.ptp(seen[..., channel], axis=(1, 2)) + 1 for channel in (0, 1))
    area = width * height / 64**2
    # Of uniform areas s, those over 3/4 fit for some of the aspect ratios 3/4..4/3 alone: the mean
    # over s of ln(1/s) / ln(4/3), at most 1, is 0.478.
    assert 0.06 < area.min() < 0.12
    assert 0.9 < area.max() <= 1.0
    assert area.mean() == pytest.approx(0.478, abs=0.05)
    mirrored = (seen[:, 32, 0, 0] > seen[:, 32, -1, 0]).mean()
    assert mirrored == pytest.approx(0.5, abs=0.12)


def test_crops_have_the_size_of_the_adapters_pixels_and_are_of_an_image_20_pixels_larger(
    monkeypatch,
):
    assert augment_images(gradient_images(1), (24, 40), seed=0, epoch=0)[0].size == (40, 24)
    monkeypatch.setattr(v2, "RandomResizedCrop", lambda *_, **__: v2.Identity())
    assert augment_images(gradient_images(1), (24, 40), seed=0, epoch=0)[0].size == (44, 44)


@pytest.mark.parametrize("left_out", ["Resize", "RandomResizedCrop"])
def test_images_are_resized_and_cropped_with_bicubic_interpolation(left_out, monkeypatch):
    # Beside an edge bicubic interpolation overshoots the values of both sides, bilinear never does.
    edge = np.where(np.arange(16) < 8, 60, 190).astype(np.uint8)
    image = Image.fromarray(np.broadcast_to(edge[None, :, None], (16, 16, 3)).copy())
    column = Column("edge", "image", [image] * 20, range(20))
    monkeypatch.setattr(v2, left_out, lambda *_, **__: v2.Identity())
    seen = np.array([np.array(one) for one in augment_images(column, (64, 64), seed=0, epoch=0)])
    assert seen.min() < 60
    assert seen.max() > 190


@pytest.mark.parametrize(("name", "other"), [("INTERPOLATION", "bilinear"), ("version", str.upper)])
def test_the_interpolation_and_the_version_of_torchvision_are_part_of_the_key(
    name, other, monkeypatch
):
    before = augment_images(gradient_images(1), (64, 64), seed=0, epoch=0).key
    monkeypatch.setattr(module, name, other)
    assert augment_images(gradient_images(1), (64, 64), seed=0, epoch=0).key != before


def test_the_features_of_an_epoch_are_those_of_its_augmented_images():
    class Mean(Reader):
        def encode_images(self, pixels):
            return pixels.mean((2, 3))

    epochs = augmented_features(Mean(), gradient_images(4), Engine.for_tests(), epochs=2, seed=3)
    for epoch, features in enumerate(epochs):
        images = augment_images(gradient_images(4), (64, 64), seed=3, epoch=epoch)
        pixels = torch.stack([Mean().preprocess(image) for image in images])
        assert torch.allclose(features, pixels.mean((2, 3)))


def test_lbfgs_needs_one_training_and_says_when_it_did_not_reach_the_optimum(monkeypatch):
    outcome = probe(Thumbnail(), digits(), optimizer="lbfgs")
    assert values(outcome)["accuracy"] > 0.93
    assert not outcome.notes
    monkeypatch.setattr(linear, "STEPS", 1)
    monkeypatch.setattr(linear.LinearProbeOptimum, "steps", 1)
    assert probe(Thumbnail(), digits(), optimizer="lbfgs").notes == [module.NOT_CONVERGED]


@pytest.mark.parametrize("options", [{"seeds": 2}, {"augment": True}])
def test_what_lbfgs_cannot_do_is_refused(options):
    with pytest.raises(ValueError, match="lbfgs sees the same images in every pass"):
        probe(Thumbnail(), digits(), optimizer="lbfgs", **options)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(UnknownNameError, match="optimizer"):
        probe(Thumbnail(), digits(), optimizer="sgd")
