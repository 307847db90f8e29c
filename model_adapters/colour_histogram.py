"""Colour histograms of images: a baseline that uses only colour."""

from __future__ import annotations

import torch
from PIL.Image import Image, Resampling
from torch import Tensor
from torch.nn.functional import one_hot

from vlbench.adapter_kit.images import to_pixels

# Number of levels of red, green and blue each.
LEVELS = 4


class ColourHistogram:
    """Encodes an image as the square root of the fraction of its pixels in each of 64 colours."""

    differentiable = False

    def __init__(self, *, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.device = device
        self.dtype = dtype

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, 32, 32] in [0, 1]: sampled pixels; the aspect ratio is lost."""
        return to_pixels(image.convert("RGB").resize((32, 32), Resampling.NEAREST))

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, 64]. No gradient flows."""
        levels = (pixels.to(self.device) * LEVELS).long().clamp(max=LEVELS - 1)
        red, green, blue = levels.unbind(1)
        codes = (red * LEVELS + green) * LEVELS + blue
        return one_hot(codes.flatten(1), LEVELS**3).float().mean(1).sqrt()
