"""Image encoders of transformers, such as ViT, DINOv2, Swin, ConvNeXt and SigLIP's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.attention import overlap_shares, patch_boxes
from vlbench.adapter_kit.hugging_face import Checkpoint, require_checkpoint
from vlbench.adapter_kit.images import images_of, pixels_of, preparation_of
from vlbench.adapter_kit.layers import LayersOfModel
from vlbench.adapter_kit.weights import UNREADABLE
from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, SpecError, WeightsError

Pool = Literal["auto", "pooled", "cls", "mean"]


class Grid(NamedTuple):
    """The position of patches among hidden states: `first` tokens before them, rows and columns.

    `first` is None for maps of channels, which have no tokens.
    """

    first: int | None
    rows: int
    columns: int


class HfVision(LayersOfModel):
    """An image encoder: a vector per image, and a vector per region from the patches it covers.

    Sizes and normalisation come from the model's image processor.

    Args:
        architecture: name of a model on the hub, or a folder in transformers' format.
        weights: `pretrained` (the architecture's), a folder that replaces it, or `random`.
        revision: branch, tag or commit of the architecture on the hub.
        pool: `pooled` (pooler_output of transformers), `cls` (the first token), `mean` (of all
            patches), or `auto`, the first of these that the checkpoint has.
        layer: layer of `cls`, `mean` and the regions: 0 the embeddings, -1 the last as
            transformers returns it.
        init_seed: seed that draws random weights.
    """

    require_weights = staticmethod(require_checkpoint)

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "facebook/dinov2-small",
        weights: str = "pretrained",
        revision: str = "main",
        pool: Pool = "auto",
        layer: int = -1,
        init_seed: int = 0,
    ) -> None:
        checkpoint = Checkpoint(architecture, weights, revision, init_seed)
        prepared = preparation_of(checkpoint.load("AutoImageProcessor"), checkpoint.name)
        self._view, self._steps = prepared.view, prepared.view.steps()
        self._mean, self._std = prepared.mean.to(device), prepared.std.to(device)
        self._is_bgr = prepared.is_bgr
        self._device, self._dtype, self._layer = device, dtype, layer
        self.model = _open(checkpoint, device, dtype)
        edges = self._view.edges
        self._size = self._view.crop or ((edges, edges) if isinstance(edges, int) else edges)
        self._extra = _unmask(self.model, self._size, device)
        output = self._try(checkpoint.name)
        self.grid = grid_of(self._states(output).shape, self._size, self.model.config)
        possible = {
            "pooled": layer == -1 and getattr(output, "pooler_output", None) is not None,
            "cls": bool(self.grid and self.grid.first),
            "mean": self.grid is not None,
        }
        self.pool = _choose(pool, possible, checkpoint.name)

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in [0, 1], of the size that the model was trained on."""
        return self._steps(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D]."""
        output = self._run(pixels)
        if self.pool == "pooled":
            # The pooled vectors of convolutional networks are maps of one pixel.
            return output.pooler_output.flatten(1).float()
        states = self._states(output)
        if self.pool == "cls":
            return states[:, 0].float()
        return patches_of(states, self.grid).float().mean(2)

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return float32 [R_i, D]: the mean of the patches, weighted by their overlap with a box.

        A box that is outside the model's view, or has no area, gets the nearest patch.
        Raises CannotDo for hidden states that form no grid of patches.
        """
        pixels = pixels_of(pictures, self.preprocess).to(self._device)
        patches = patches_of(self._states(self._run(pixels)), self.grid).float()
        sizes = [image.size for image in images_of(pictures)]
        placed = [self._view.place(*pair) for pair in zip(boxes, sizes, strict=True)]
        return [
            self._shares(region).to(vectors) @ vectors.T
            for region, vectors in zip(placed, patches, strict=True)
        ]

    def _run(self, pixels: Tensor) -> Any:
        normalised = (pixels.float() - self._mean) / self._std
        seen = normalised.flip(1) if self._is_bgr else normalised
        extra = {key: value.expand(len(seen), -1) for key, value in self._extra.items()}
        return self.model(
            pixel_values=seen.to(self._dtype), output_hidden_states=self._layer != -1, **extra
        )

    def _states(self, output: Any) -> Tensor:
        last = self._layer == -1
        states: Tensor = output.last_hidden_state if last else output.hidden_states[self._layer]
        return states

    def _shares(self, boxes: Tensor) -> Tensor:
        """Return the weight of each patch in each box of the view, [R, rows x columns]."""
        assert self.grid
        rows, columns = self.grid.rows, self.grid.columns
        # Pixels at the edge that fill no whole patch belong to no patch.
        tall, wide = (side // n * n for side, n in zip(self._size, (rows, columns), strict=True))
        cells = patch_boxes(rows, columns, (wide, tall))
        return overlap_shares(boxes, cells)

    def _try(self, name: str) -> Any:
        """Return the output for a black image. Raises CannotDo for a model of another kind."""
        try:
            with torch.no_grad():
                output = self._run(torch.zeros(1, 3, *self._size, device=self._device))
        except UNREADABLE as error:
            why = f"is a {type(self.model).__name__}, which does not read one image"
            raise CannotDo(f"{name} {why}: {error}") from error
        if getattr(output, "last_hidden_state", None) is None:
            raise CannotDo(f"{name} is a {type(self.model).__name__}, without a last hidden state")
        count = len(output.hidden_states or ()) if self._layer != -1 else 1
        if not -count <= self._layer < count:
            limits = f"{-count}..{count - 1}"
            raise SpecError(f"layer {self._layer} is outside {limits} of {name}")
        return output


def _choose(pool: Pool, possible: Mapping[str, bool], name: str) -> str:
    """Return the pooling. Raises CannotDo if the checkpoint does not have it."""
    available = [way for way, is_there in possible.items() if is_there]
    if not available or (pool != "auto" and pool not in available):
        ways = ", ".join(available) or "no vector of an image"
        raise CannotDo(f"{name} gives {ways} at this layer, not pool={pool}")
    return available[0] if pool == "auto" else pool


def _unmask(model: Any, size: tuple[int, int], device: torch.device) -> dict[str, Tensor]:
    """Return the inputs that stop a masked autoencoder from hiding and shuffling patches."""
    config = model.config
    if config.model_type != "vit_mae":
        return {}
    config.mask_ratio = 0.0
    count = (size[0] // config.patch_size) * (size[1] // config.patch_size)
    return {"noise": torch.arange(count, device=device).float()[None]}


def _open(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Any:
    """Return a model, without a pooler if the checkpoint has none. Raises WeightsError."""
    opened = checkpoint.open("AutoModel", device, dtype, optional_heads=True)
    model = opened.model
    lost = [name for name in opened.missing if not name.startswith("pooler.")]
    if lost:
        raise WeightsError(f"{checkpoint.name} lacks {len(lost)} weights: {', '.join(lost[:10])}")
    if opened.missing:
        model.pooler = None
    # SDPA is faster than eager attention, which `Checkpoint` sets.
    if model._supports_sdpa and model._can_set_attn_implementation():  # noqa: SLF001 - has no other
        model.set_attn_implementation("sdpa")
    return model


def patches_of(states: Tensor, grid: Grid | None) -> Tensor:
    """Return the patches of hidden states, row by row: [N, D, rows x columns].

    Raises CannotDo for hidden states that form no grid of patches.
    """
    if grid is None:
        raise CannotDo("the hidden states of this model form no grid of patches")
    if grid.first is None:
        return states.flatten(2)
    return states[:, grid.first : grid.first + grid.rows * grid.columns].mT


def grid_of(shape: Sequence[int], size: Sequence[int], config: Any) -> Grid | None:
    """Return the grid of hidden states for an image size; None if they form no grid."""
    if len(shape) == 4:
        rows, columns = shape[2:]
        return Grid(None, rows, columns) if rows * size[1] == columns * size[0] else None
    patch = getattr(config, "patch_size", None)
    if len(shape) != 3 or not isinstance(patch, int):
        return None
    rows, columns = size[0] // patch, size[1] // patch
    registers = getattr(config, "num_register_tokens", 0)
    # [CLS] and a distillation token may precede the patches.
    if shape[1] - rows * columns in {0, 1 + registers, 2 + registers}:
        return Grid(shape[1] - rows * columns, rows, columns)
    while rows % 2 == 0 and columns % 2 == 0:  # four patches were merged, perhaps several times
        rows, columns = rows // 2, columns // 2
        if rows * columns == shape[1]:
            return Grid(0, rows, columns)
    return None
