"""Transfer by a linear probe on frozen features. arXiv:2104.08313, section 3.3.

As in the paper: raw features, cross-entropy, Adam with L2 weight decay on weights and bias, and the
accuracy after the last epoch. `accuracy` departs from the paper: features are extracted once, from
images that are not augmented. `accuracy_augmented` follows the paper: in each epoch, every train
image is augmented by Resize(size + 20) and RandomResizedCrop(size), both bicubic as in the code,
and RandomHorizontalFlip; `size` is the size of the adapter's pixels. Adapters that resize to their
crop size, like the paper's, then leave these images unchanged; adapters that resize to a larger
size cut off the border of each crop. The floor of `train_accuracy` is the train accuracy of a probe
trained on shuffled labels, which can only memorise. Departure from the code: every draw is seeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Column, Data, TrainAndTestRows, require_classes
from vlbench.engine import Engine
from vlbench.engine.training import ONE_TRAINING, each_seed
from vlbench.errors import require_known
from vlbench.metrics.ranking import all_equal
from vlbench.probes.by_layer import layered
from vlbench.probes.generalization.blind import blind_features
from vlbench.probes.generalization.categories import class_items, parted
from vlbench.probes.generalization.linear import (
    PAPER_TRAINING,
    LinearProbe,
    LinearTraining,
    classify,
    few_steps,
    train_and_test_labels,
    train_linear_probe,
    train_linear_probe_once,
    zero_probe,
)
from vlbench.results import Outcome
from vlbench.system.digests import digest

# Pixels by which the shorter side exceeds the crop size after resizing.
MARGIN = 20

# The learning rate of a floor; at the paper's rate, its few features would not converge.
BLIND_RATE = 0.03

# Interpolation of both; torchvision's default is bilinear.
INTERPOLATION = "bicubic"

NOT_CONVERGED = "L-BFGS stopped before the optimum of a probe"
EQUAL_FEATURES_NOTE = "all test images have identical features, so accuracy is at chance"


def augmented_features(
    model: ImageEncoder, images: Column, engine: Engine, *, epochs: int, seed: int
) -> Iterator[Tensor]:
    """Yield float32 [N, D] for each epoch, extracted from newly augmented images."""
    height, width = model.preprocess(images[0]).shape[-2:]
    for epoch in range(epochs):
        yield engine.features(
            model.encode_images, augment_images(images, (height, width), seed=seed, epoch=epoch)
        )


def augment_images(images: Column, size: tuple[int, int], *, seed: int, epoch: int) -> Column:
    """Return a column of the images of one epoch, all augmented to one size (H, W).

    The augmentation of an image depends on the seed, the epoch and its row, not on earlier reads.
    """
    # The engine knows a column only by its key, so the library's version belongs in it.
    how = [MARGIN, INTERPOLATION, version("torchvision")]
    key = digest(["augmented", images.key, size, seed, epoch, *how])
    return Column(key, images.kind, AugmentedImages(images.stored, size, seed, epoch), images.rows)


@dataclass(frozen=True, eq=False)
class AugmentedImages(Sequence[Any]):
    """Images of `source`, augmented each time they are read."""

    source: Sequence[Image]
    size: tuple[int, int]
    seed: int
    epoch: int

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.source)

    def __getitem__(self, row: Any) -> Any:
        """Return the augmented image of one row."""
        from torchvision.transforms import v2  # noqa: PLC0415 - slow to import, for one option

        how = v2.InterpolationMode(INTERPOLATION)
        change = v2.Compose(
            [
                v2.Resize(min(self.size) + MARGIN, how),
                v2.RandomResizedCrop(self.size, interpolation=how),
                v2.RandomHorizontalFlip(),
            ]
        )
        state = np.random.SeedSequence([self.seed, self.epoch, row]).generate_state(1)
        # The library draws from the global generator, which is restored.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(state[0]))
            return change(self.source[row])


@layered()
@parted
def transfer(
    model: ImageEncoder,
    data: TrainAndTestRows,
    engine: Engine,
    *,
    training: LinearTraining = PAPER_TRAINING,
    augment: bool = False,
    floors: dict[str, str] | None = None,
) -> Outcome:
    """Return the test accuracy of a linear probe trained on the train images' features.

    If all test images have the same features, within 1e-6, all classes are tied: a trained probe
    would only know which class is common. Raises TooFewRows for a class without train images.
    L-BFGS is deterministic: it trains once, without `augment` and without several seeds.

    Args:
        training: `optimizer` (adam or lbfgs), `epochs`, `batch_size`, `learning_rate`,
            `weight_decay`; `seeds` trainings, from `seed` on.
        augment: whether each epoch of training has its own augmented images.
        floors: by name of a floor, a column; the floor is the same accuracy with features of this
            column, without a model or augmentation.
        categories: the classes of each part by its name, scored separately; None: no parts.
        layers: names of layers of the image encoder to score, or `all`; None scores the output.
    """
    _refuse_training(training, augment=augment)
    require_classes(data)
    train_label, test_label = train_and_test_labels(data)
    test = engine.features(model.encode_images, data.splits["test"]["image"])
    equal, size = all_equal(test), (len(data.classes), test.shape[1])
    images = data.splits["train"]["image"]
    train = None if augment else engine.large_features(model.encode_images, images)

    def fit(plan: LinearTraining, label: Tensor) -> LinearProbe:
        """Return the probe of one seed, trained on these labels."""
        if equal:
            return zero_probe(*size)
        if train is not None:
            return train_linear_probe_once(engine, train, label, size, plan)
        epochs = augmented_features(model, images, engine, epochs=plan.epochs, seed=plan.seed)
        return train_linear_probe(epochs, label, size, plan, engine.device)

    seeds = each_seed(training)
    probes = [fit(seed, train_label) for seed in seeds]
    choices = [classify(probe, test, test_label) for probe in probes]
    blind = {
        name: _blind_accuracy(column, data, engine, seeds)
        for name, column in (floors or {}).items()
    }
    name = "accuracy_augmented" if augment else "accuracy"
    splits, classes = data.splits, data.classes
    metrics = [class_items(name, choices, splits["test"], classes, floors=blind)]
    if train is not None:
        fitted = [classify(probe, train, train_label) for probe in probes]
        # A probe memorises, so that chance is no reference for accuracy on its training images.
        orders = [np.random.default_rng(seed.seed).permutation(len(train_label)) for seed in seeds]
        shuffled = [train_label[order] for order in orders]
        remembered = [
            classify(fit(plan, label), train, label).credit.mean()
            for plan, label in zip(seeds, shuffled, strict=True)
        ]
        memory = {"shuffled_labels": float(torch.stack(remembered).mean())}
        trained = class_items("train_accuracy", fitted, splits["train"], classes, floors=memory)
        metrics.append(trained._replace(options=trained.options._replace(chance=None)))
    single = not equal and training.seeds == 1 and training.optimizer == "adam"
    short = not all(probe.get("converged", True) for probe in probes)
    way = "more epochs come nearer" if augment else "`training: {optimizer: lbfgs}` reaches it"
    few = [] if equal else [f"{note}; {way}" for note in few_steps(training, len(train_label))]
    held = [(EQUAL_FEATURES_NOTE, equal), (ONE_TRAINING, single), (NOT_CONVERGED, short)]
    notes = [*(note for note, holds in held if holds), *few]
    counts = {"choices": len(choices) * len(test_label)}
    return Outcome(metrics=metrics, counts=counts, notes=notes)


def _blind_accuracy(
    column: str, data: Data, engine: Engine, seeds: Sequence[LinearTraining]
) -> float:
    """Return the mean accuracy over seeds of probes on the features of a column."""
    splits = {name: data.splits[name] for name in ("train", "test")}
    features = blind_features(splits, column, engine)
    train, test = train_and_test_labels(data)
    size = (len(data.classes), features["train"].shape[1])
    hard = (seed._replace(learning_rate=BLIND_RATE) for seed in seeds)
    probes = (train_linear_probe_once(engine, features["train"], train, size, one) for one in hard)
    credit = [classify(probe, features["test"], test).credit.mean() for probe in probes]
    return float(torch.stack(credit).mean())


def _refuse_training(training: LinearTraining, *, augment: bool) -> None:
    require_known("optimizer", [training.optimizer], ["adam", "lbfgs"])
    if training.optimizer == "lbfgs" and (augment or training.seeds > 1):
        raise ValueError("lbfgs sees the same images in every pass and ignores the seed")
    if min(training.epochs, training.batch_size) < 1:
        text = f"epochs {training.epochs} and batch_size {training.batch_size}"
        raise ValueError(f"{text}: both must be 1 or more")
