"""The picture itself, small: a floor for every model that has learned something."""

from __future__ import annotations

import torch
from PIL.Image import Image, Resampling
from torch import Tensor
from torchvision.transforms.functional import to_tensor


class RawPixels:
    """Encodes an image as what is left of it when it is squashed to 32 x 32 pixels."""

    def __init__(self, *, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.device = device
        self.dtype = dtype

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, 32, 32] in [0, 1]; the aspect ratio is lost."""
        small = image.convert("RGB").resize((32, 32), Resampling.BICUBIC)
        squashed: Tensor = to_tensor(small)
        return squashed

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return the pixels themselves, float32 [N, 3072]: channel by channel, row by row."""
        return pixels.flatten(1).float()
