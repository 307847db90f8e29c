"""The mean colour of an image: the smallest model that encodes images."""

from __future__ import annotations

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.images import to_pixels


class MeanColour:
    """Encodes an image as its mean red, green and blue. Its two methods make it an ImageEncoder."""

    def __init__(self, *, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.device = device
        self.dtype = dtype

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, 32, 32] in [0, 1]; a normalisation would belong to encode_images."""
        return to_pixels(image.convert("RGB").resize((32, 32)))

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, 3] for pixels [N, 3, 32, 32]."""
        return pixels.to(self.device, self.dtype).mean((2, 3)).float()
