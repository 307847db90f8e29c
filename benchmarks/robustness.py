"""Measure robustness against foolbox called directly on the same batches, as a ratio of times.

Both attack 20 images of 16 x 16 in batches of 10 with LinfPGD, untargeted and targeted, at one
epsilon, 20 steps each; the network has four convolutions and no trained weights. The probe also
classifies the images before and after the attacks: (20 + 1) / 20 of the work, which is the target.
"""

import warnings
from itertools import pairwise

import numpy as np
import torch
from measuring import Against, compare
from PIL import Image
from torch import Tensor, nn

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.probes.generalization.robustness import robustness
from vlbench.probes.generalization.rpgd import Descent

IMAGES, SIDE, CLASSES, BATCH, STEPS, EPSILON = 20, 16, 10, 10, 20, 0.01
ROUNDS = 5


class Net:
    """A classifier as an adapter."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        widths = [3, 32, 64, 64, 64]
        layers = [
            layer
            for before, after in pairwise(widths)
            for layer in (nn.Conv2d(before, after, 3, padding=1), nn.ReLU())
        ]
        self.net = nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES)
        )
        self.net.eval().requires_grad_(requires_grad=False)

    def preprocess(self, image: Image.Image) -> Tensor:
        """Return the pixels as they are."""
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255

    def class_names(self) -> list[str]:
        """Return numbers for names."""
        return [str(i) for i in range(CLASSES)]

    def logits(self, pixels: Tensor) -> Tensor:
        """Return [N, C]."""
        scores: Tensor = self.net(pixels)
        return scores


def noise() -> Data:
    """Return test images of noise."""
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, SIDE, SIDE, 3), np.uint8)
    images = Column("noise", "image", [Image.fromarray(p) for p in pixels], range(IMAGES))
    label = value_column([i % CLASSES for i in range(IMAGES)])
    split = Split({"image": images, "label": label})
    return Data(splits={"test": split}, classes=[str(i) for i in range(CLASSES)])


def main() -> None:
    """Compare them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import foolbox  # noqa: PLC0415 - it warns
    model, data = Net(), noise()
    pixels = torch.stack([model.preprocess(image) for image in data.splits["test"]["image"]])
    right = torch.arange(IMAGES) % CLASSES
    rule = {"steps": STEPS, "rel_stepsize": 0.125}
    attack = foolbox.attacks.LinfPGD(random_start=True, **rule)
    attacked = foolbox.PyTorchModel(model.net, bounds=(0, 1), device="cpu")

    def alone() -> None:
        for x, y in zip(pixels.split(BATCH), right.split(BATCH), strict=True):
            attack(attacked, x, foolbox.criteria.Misclassification(y), epsilons=EPSILON)
            target = foolbox.criteria.TargetedMisclassification((y + 1) % CLASSES)
            attack(attacked, x, target, epsilons=EPSILON)

    def probe() -> None:
        sizes = {"linf": [EPSILON]}
        usual = {"target_offset": 1, "sample": None, "attack": Descent(batch_size=BATCH, **rule)}
        robustness(model, data, Engine.for_tests(), epsilons=sizes, **usual)

    probe()
    peer = f"foolbox {foolbox.__version__}"
    compare(Against("robustness, LinfPGD", peer, 1.05), probe, alone, ROUNDS)


if __name__ == "__main__":
    main()
