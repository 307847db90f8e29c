"""One fixed square view of a picture for a generative model, from pixels to image tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vlbench.adapter_kit.images import normalise
from vlbench.errors import CannotDo, SpecError

# The side of the view of models that see pictures of any size, rounded to whole tokens.
SIDE = 448


class SquareView:
    """Makes the inputs of a model's `get_image_features` of square pixels, in torch.

    `size` is the side in pixels, by default that of the vision encoder, or 448 rounded to whole
    tokens where it sees pictures of any size. Raises SpecError for a size that the model cannot
    see, and CannotDo for a processor that does not say how pixels are normalised.
    """

    def __init__(self, model: Any, processor: Any, size: int | None) -> None:
        self._model = model
        self._images = processor.image_processor
        vision = model.config.vision_config
        fixed = getattr(vision, "image_size", None) or self._processed()
        fixed = fixed[0] if isinstance(fixed, list | tuple) else fixed
        merge = getattr(self._images, "merge_size", None)
        self._token: int | None = vision.patch_size * merge if merge else None
        if self._token:
            self.size: int = size or max(SIDE // self._token, 1) * self._token
            wrong = self.size % self._token and f"is no multiple of {self._token}"
        elif fixed:
            self.size = size or fixed
            wrong = self.size != fixed and f"is not {fixed}, the only size that the model sees"
        else:
            raise CannotDo(f"{type(model).__name__} does not say what size of pixels it sees")
        if wrong:
            raise SpecError(f"size {self.size} {wrong}")

    def tokens(self, pixels: Tensor) -> Tensor:
        """Return the projected image tokens [N, T, D] of [N, 3, size, size] in [0, 1]."""
        if self._images.do_normalize:
            pixels = normalise(pixels, self._images.image_mean, self._images.image_std)
        pixels = pixels.to(self._model.dtype)
        if self._model.config.model_type in {"llava_onevision", "llava_next"}:
            return self._untiled(pixels)
        found = image_features(self._model, self._inputs(pixels))
        return found.view(len(pixels), -1, found.shape[-1])

    def _processed(self) -> int | None:
        """Return the side that the processor makes of every image, for a vision encoder of timm."""
        made = self._images.crop_size if self._images.do_center_crop else self._images.size
        side: int | None = made.get("height")
        return side

    def _inputs(self, pixels: Tensor) -> dict[str, Any]:
        if self._token:
            return self._patches(pixels)
        nested = self._model.config.model_type in {"idefics3", "smolvlm"}
        return {"pixel_values": pixels[:, None] if nested else pixels}

    def _patches(self, pixels: Tensor) -> dict[str, Any]:
        """Return the patches of Qwen-VL: those of one token together, each as in two frames."""
        merge, frames = self._images.merge_size, self._images.temporal_patch_size
        side = self._model.config.vision_config.patch_size
        count = pixels.shape[-1] // side
        grid = (count // merge, merge, side)
        patches = pixels.reshape(len(pixels), 3, *grid, *grid).permute(0, 2, 5, 3, 6, 1, 4, 7)
        framed = patches.unsqueeze(6).expand(*[-1] * 6, frames, -1, -1)
        grids = torch.tensor([[1, count, count]], device=pixels.device).expand(len(pixels), 3)
        rows = framed.reshape(len(pixels) * count * count, -1)
        return {"pixel_values": rows, "image_grid_thw": grids}

    def _untiled(self, pixels: Tensor) -> Tensor:
        """Return the tokens of the whole picture alone: the library would add tiles to them."""
        model, config = self._model.model, self._model.config
        layer = config.vision_feature_layer
        states = model.vision_tower(pixels, output_hidden_states=True).hidden_states
        chosen = (
            states[layer] if isinstance(layer, int) else torch.cat([states[i] for i in layer], -1)
        )
        if config.vision_feature_select_strategy == "default":
            chosen = chosen[:, 1:]
        tokens: Tensor = model.multi_modal_projector(chosen)
        return tokens


def image_features(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """Return the projected image tokens [T, D] of all pictures, in the order of the prompt."""
    found = model.get_image_features(**inputs).pooler_output
    parts: list[Tensor] = [found] if isinstance(found, Tensor) else list(found)
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])
