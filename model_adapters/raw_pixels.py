"""The pixels of a small picture: a baseline without learning."""

from __future__ import annotations

import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from vlbench.adapter_kit.images import to_pixels


class RawPixels:
    """Encodes an image as its pixels, squashed to 32 x 32."""

    def __init__(self, *, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.device = device
        self.dtype = dtype

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, 32, 32] in [0, 1]; the aspect ratio is lost."""
        return to_pixels(image.convert("RGB").resize((32, 32), Resampling.BICUBIC))

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return the pixels themselves, float32 [N, 3072]: channel by channel, row by row."""
        return pixels.flatten(1).float()
