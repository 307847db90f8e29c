"""Samples on which adapters are tested: small images, texts and regions, some of them unusual."""

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

# For each sample's text as a question, an answer of one or of several tokens.
ANSWERS = ("Yes", "No", "two dogs on the mat", "red", "a hat", "Yes", "Ein Café, 猫 🐱")

# How often the very long text repeats its sentence.
SENTENCES = 500

# The unusual samples after the first four, by index.
ODD_IMAGES = {4: "a grayscale image", 5: "an image once transparent", 6: "an image of one pixel"}
ODD_TEXTS = {4: "empty text", 5: "very long text", 6: "text beyond ASCII"}
ODD_PAIRS = {i: f"{ODD_IMAGES[i]} with {ODD_TEXTS[i]}" for i in ODD_IMAGES}
# A very long question is refused if it does not fit.
ODD_QUESTIONS = {i: odd for i, odd in ODD_PAIRS.items() if i != 5}


class Samples(NamedTuple):
    """Seven examples for one adapter: four plain examples of one size, and three unusual ones.

    `device` and `dtype` are those with which the adapter computes.
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
    """Return the samples, which are always the same; each picture has three regions."""
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
    """Return noise in mode RGB, as loaders convert it; the third number is the channels."""
    return Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).convert("RGB")


def _boxes(size: Sequence[int]) -> Tensor:
    """Return three boxes, xyxy pixels: the whole image, its left half, its lower half."""
    width, height = size
    return torch.tensor(
        [[0, 0, width, height], [0, 0, width / 2, height], [0, height / 2, width, height]]
    )


def _random_regions(
    rng: np.random.Generator, size: tuple[int, int], boxes: Tensor, width: int
) -> Regions:
    vectors = torch.from_numpy(rng.random((len(boxes), width), dtype=np.float32))
    return Regions(boxes, vectors, torch.full((len(boxes),), 0.5), ["cat"] * len(boxes), size)
