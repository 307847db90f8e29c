"""Image models of timm by name, with the preprocessing of their weights' evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from PIL.Image import Image
from timm_cnn import TimmCnn
from torch import Tensor

from vlbench.adapter_kit.layers import LayersOfModel


class TimmVision(LayersOfModel):
    """An image encoder and classifier of timm, at its input size, with the features of `TimmCnn`.

    It resizes and crops as timm's configuration of the weights states, so it can read transformers
    with a fixed input size; the tasks' `resize` and `crop` do not apply.

    Args:
        architecture: name in timm, with the tag that determines normalisation and classes, or a
            folder in which timm saved a model (config.json, model.safetensors).
        weights: `pretrained` (of the folder, or of the tag), a file (a state dict, or the .npz
            in which Google published BiT), or `random`.
        revision: branch, tag or commit of the tag's repository on the hub.
        classes: the outputs of a file: `imagenet`, for the 1,000 classes in their usual
            order, or a file with a name per line; empty: unknown.
        init_seed: seed that draws random weights.
    """

    require_weights = TimmCnn.require_weights

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str,
        weights: str = "pretrained",
        revision: str = "main",
        classes: str = "",
        init_seed: int = 0,
    ) -> None:
        self._net = TimmCnn(
            device=device,
            dtype=dtype,
            architecture=architecture,
            weights=weights,
            revision=revision,
            classes=classes,
            init_seed=init_seed,
        )
        self.class_order = self._net.class_order
        self.model = self._net.model
        self._steps = _steps(self.model)

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in [0, 1], resized and cropped by timm."""
        return self._steps(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D], the pooled inputs of the head."""
        return self._net.encode_images(pixels)

    def encode_grid(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D, rows, columns]. Raises CannotDo if timm gives none."""
        return self._net.encode_grid(pixels)

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, C]."""
        return self._net.logits(pixels)

    def class_names(self) -> list[str]:
        """Return the names of the classes. Raises CannotDo if no names are known."""
        return self._net.class_names()


def _steps(model: Any) -> Callable[[Image], Tensor]:
    """Return timm's preprocessing of a model without its last step, which normalises."""
    from timm.data import create_transform, resolve_model_data_config  # noqa: PLC0415 - seconds
    from torchvision.transforms import Compose  # noqa: PLC0415

    composed = create_transform(**resolve_model_data_config(model), is_training=False)
    steps: Callable[[Image], Tensor] = Compose(composed.transforms[:-1])
    return steps
