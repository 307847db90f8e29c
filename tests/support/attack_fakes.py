"""Classifiers that are attacked, and images to attack."""

import numpy as np
import torch
from fakes import Reader
from PIL import Image
from torch import nn

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.system.digests import digest

SIDE = 4


class Brightness(Reader):
    """Names what is brighter than one half class 1: the margin is the distance from one half."""

    def class_names(self):
        return ["dark", "bright"]

    def logits(self, pixels):
        margin = pixels.mean((1, 2, 3)) - 0.5
        return torch.stack([-margin, margin], 1)


class SmallNet(Reader):
    """A convolution and a linear layer, drawn with a seed."""

    def __init__(self, classes=3, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.kernel = torch.randn(8, 3, 3, 3, generator=generator)
        self.weight = torch.randn(classes, 8, generator=generator)
        self.classes = classes

    def class_names(self):
        return [f"class {i}" for i in range(self.classes)]

    def logits(self, pixels):
        inside = nn.functional.conv2d(pixels - 0.5, self.kernel).tanh()
        return inside.mean((2, 3)) @ self.weight.T


def greys(*values, side=SIDE):
    """Return test images of one grey each: class 1 is brighter than one half."""
    pixels = [np.full((side, side, 3), round(v * 255), np.uint8) for v in values]
    return pictures(pixels, [int(v > 0.5) for v in values], ["dark", "bright"])


def noise(count, classes=3, side=8):
    """Return test images of noise, labelled in turn."""
    pixels = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)
    names = [f"class {i}" for i in range(classes)]
    return pictures(pixels, [i % classes for i in range(count)], names)


def pictures(pixels, label, classes):
    stored = [Image.fromarray(p) for p in pixels]
    images = Column(digest([p.tolist() for p in pixels]), "image", stored, range(len(stored)))
    return Data(
        splits={"test": Split({"image": images, "label": value_column(label)})}, classes=classes
    )
