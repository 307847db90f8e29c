"""Samples that adapters are tested on: small images, texts and regions, some of them unusual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vlbench.capabilities import Picture, Regions

HEIGHT, WIDTH = 40, 56
TEXTS = ("a photo of a cat", "Two dogs, running!", "red", "the man's hat is on the table")

# An answer to each sample's text, as a question: of one token and of several.
ANSWERS = ("Yes", "No", "two dogs on the mat", "red", "a hat", "Yes", "Ein Café, 猫 🐱")

# How often the very long text says the same.
SENTENCES = 500

# The samples after the first four, by their number.
ODD_IMAGES = {4: "a grayscale image", 5: "an image once transparent", 6: "an image of one pixel"}
ODD_TEXTS = {4: "empty text", 5: "very long text", 6: "text beyond ASCII"}
ODD_PAIRS = {i: f"{ODD_IMAGES[i]} with {ODD_TEXTS[i]}" for i in ODD_IMAGES}


class Samples(NamedTuple):
    """Seven examples, four plain ones of one size and three unusual ones, for one adapter.

    `device` and `dtype` are those that the adapter computes on and in.
    """

    device: torch.device
    dtype: torch.dtype
    images: list[Image.Image]
    texts: list[str]
    pictures: list[Picture]
    boxes: list[Tensor]


def draw_samples(
    device: torch.device, region_width: int, dtype: torch.dtype = torch.float32
) -> Samples:
    """Return the same samples every time; each picture has three regions."""
    rng = np.random.default_rng(0)
    images = [_noise(rng, HEIGHT, WIDTH, 3) for _ in TEXTS]
    images += [
        _noise(rng, HEIGHT, WIDTH),
        _noise(rng, HEIGHT, WIDTH, 4),
        Image.new("RGB", (1, 1), "teal"),
    ]
    texts = [*TEXTS, "", "A cat sat on the mat. " * SENTENCES, "Ein Café, 猫 🐱"]
    boxes = [_boxes(image.size) for image in images]
    pictures = [
        Picture(image, _random_regions(rng, image.size, inside, region_width))
        for image, inside in zip(images, boxes, strict=True)
    ]
    return Samples(device, dtype, images, texts, pictures, boxes)


def _noise(rng: np.random.Generator, *shape: int) -> Image.Image:
    """Return noise in mode RGB, as loaders convert it; the last of three numbers is channels."""
    return Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).convert("RGB")


def _boxes(size: Sequence[int]) -> Tensor:
    """Return three boxes, xyxy pixels: all of an image, its left half, its lower half."""
    width, height = size
    return torch.tensor(
        [[0, 0, width, height], [0, 0, width / 2, height], [0, height / 2, width, height]]
    )


def _random_regions(
    rng: np.random.Generator, size: tuple[int, int], boxes: Tensor, width: int
) -> Regions:
    vectors = torch.from_numpy(rng.random((len(boxes), width), dtype=np.float32))
    return Regions(boxes, vectors, torch.full((len(boxes),), 0.5), ["cat"] * len(boxes), size)
