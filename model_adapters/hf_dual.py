"""Dual encoders of transformers: CLIP, SigLIP (arXiv:2303.15343), ALIGN and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from hf_vision import grid_of, patches_of
from PIL.Image import Image
from torch import Tensor
from torch.nn import functional

from vlbench.adapter_kit.hugging_face import Checkpoint, require_checkpoint
from vlbench.adapter_kit.images import pixels_of, preparation_of
from vlbench.adapter_kit.layers import LayersOfModel
from vlbench.adapter_kit.text import TextReader, position_limit, token_vectors
from vlbench.capabilities import Picture, TokenVectors
from vlbench.errors import CannotDo


class HfDual(LayersOfModel):
    """An image encoder and a text encoder, compared by the cosine of their vectors.

    Sizes, central crop and normalisation come from the model's image processor.

    Args:
        architecture: name of a model on the hub, or a folder in transformers' format.
        weights: `pretrained` (the architecture's), a folder that replaces it, or `random`.
        revision: branch, tag or commit of the architecture on the hub.
        init_seed: seed that draws random weights.
    """

    require_weights = staticmethod(require_checkpoint)

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "openai/clip-vit-base-patch32",
        weights: str = "pretrained",
        revision: str = "main",
        init_seed: int = 0,
    ) -> None:
        checkpoint = Checkpoint(architecture, weights, revision, init_seed)
        opened = checkpoint.open("AutoModel", device, dtype)
        self.model = opened.model
        if not all(hasattr(self.model, f"get_{kind}_features") for kind in ("image", "text")):
            kind = type(self.model).__name__
            raise CannotDo(f"{checkpoint.name} is a {kind}; this adapter reads dual encoders")
        prepared = preparation_of(checkpoint.load("AutoImageProcessor"), checkpoint.name)
        self._steps, self._is_bgr = prepared.view.steps(), prepared.is_bgr
        self._mean, self._std = prepared.mean.to(device), prepared.std.to(device)
        self._reader = TextReader(
            checkpoint.load("AutoTokenizer"),
            position_limit(self.model, opened.config.text_config),
            device,
            # SigLIP was trained on padded texts and attends to the padding.
            pad_to_limit=opened.config.model_type.startswith("siglip"),
        )
        self.context_length: int = self._reader.limit
        self.count_tokens = self._reader.count
        self._device = device
        self._dtype = dtype

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in [0, 1], of the size that the model was trained on."""
        return self._steps(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D], not of unit length."""
        return _pool(self.model.get_image_features(self._normalise(pixels)))

    def encode_grid(self, pixels: Tensor) -> Tensor:
        """Return the last hidden state of each patch, float32 [N, D, rows, columns].

        Raises CannotDo if the image encoder is not a separate module, or has no patches.
        """
        if not hasattr(self.model, "vision_model"):
            raise CannotDo(
                "this model has no image encoder of its own, so it gives no grid of patches"
            )
        states = self.model.vision_model(pixel_values=self._normalise(pixels)).last_hidden_state
        grid = grid_of(states.shape, pixels.shape[2:], self.model.config.vision_config)
        patches = patches_of(states, grid).float()
        assert grid
        return patches.unflatten(2, (grid.rows, grid.columns))

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return float32 [N, D], not of unit length; texts are cut to `context_length` tokens."""
        return _pool(self.model.get_text_features(**self._reader.tokens(texts)))

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the last hidden state of the text encoder for each token, before projection.

        Raises CannotDo if the tokenizer gives no spans, or if the text encoder is not a separate
        module.
        """
        if not hasattr(self.model, "text_model"):
            raise CannotDo(
                "this model has no text encoder of its own, so it gives no vectors of tokens"
            )
        tokens, spans = self._reader.read(texts)
        return token_vectors(self.model.text_model(**tokens).last_hidden_state.float(), spans)

    def similarity(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return the cosine of each image with each text, [N, M], -1..1."""
        return functional.normalize(images, dim=1) @ functional.normalize(texts, dim=1).T

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the cosine of each picture with its text, float32 [N], -1..1."""
        seen = self.encode_images(pixels_of(pictures, self.preprocess).to(self._device))
        return functional.cosine_similarity(seen, self.encode_texts(texts))

    def _normalise(self, pixels: Tensor) -> Tensor:
        normalised = (pixels.float() - self._mean) / self._std
        return (normalised.flip(1) if self._is_bgr else normalised).to(self._dtype)


def _pool(output: Any) -> Tensor:
    """Return one vector per input, float32 [N, D], from the output of an encoder."""
    vectors: Tensor = getattr(output, "pooler_output", output)
    if vectors.ndim != 2:
        shape = list(vectors.shape)
        raise CannotDo(f"the encoder returns {shape}, not one vector per input, [N, D]")
    return vectors.float()
