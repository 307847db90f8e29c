"""Two towers of the library transformers: CLIP, SigLIP (arXiv:2303.15343), ALIGN and their kin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL.Image import Image, Resampling
from torch import Tensor
from torch.nn import functional
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize, ToTensor
from transformers import AutoConfig, AutoImageProcessor, AutoModel, AutoTokenizer

from vlbench.adapter_kit.hugging_face import Source, draw_model
from vlbench.adapter_kit.images import pixels_of
from vlbench.adapter_kit.text import token_span
from vlbench.capabilities import Picture, TokenVectors
from vlbench.errors import CannotDo, WeightsError


class HfDual:
    """The two towers of a model, and the cosine between them.

    `architecture` is a name of the hub, at `revision`, or a folder in the library's own format.
    `weights` is "pretrained" (the architecture's own), a folder in its place, or "random", drawn
    with `init_seed`. Sizes and normalisation are those of the model's image processor; the central
    square is cut as torchvision cuts it, which may be one pixel beside the processor's.
    """

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
        source = Source(architecture, weights, revision)
        config = source.load(AutoConfig)
        if weights == "random":
            model = draw_model(AutoModel, config, init_seed)
        else:
            model, lost = source.load_model(AutoModel, config)
            source.refuse(lost)
        if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
            raise CannotDo(f"{source.name} is a {type(model).__name__}: it has no two towers")
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._tokenizer = source.load(AutoTokenizer)
        recipe = source.load(AutoImageProcessor).to_dict()
        self._steps = _steps(recipe, source.name)
        self._mean, self._std = (part.to(device) for part in _normaliser(recipe))
        # SigLIP was trained on padded texts and attends to the padding.
        self._padding = "max_length" if config.model_type.startswith("siglip") else True
        limit: int = config.text_config.max_position_embeddings
        self.context_length: int = min(self._tokenizer.model_max_length, limit)
        self._device = device
        self._dtype = dtype

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in [0, 1], of the size that the model was trained on."""
        pixels: Tensor = self._steps(image)
        return pixels

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D], not of unit length."""
        normalised = (pixels.float() - self._mean) / self._std
        return _pooled(self.model.get_image_features(normalised.to(self._dtype)))

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return float32 [N, D], not of unit length; what passes `context_length` is cut off."""
        return _pooled(self.model.get_text_features(**self._tokens(texts)))

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the text tower's last hidden state of each token, before it is projected.

        Raises CannotDo where the library gives no spans, or no tower by itself.
        """
        if not (self._tokenizer.is_fast and hasattr(self.model, "text_model")):
            raise CannotDo("this model has no fast tokenizer, or no text tower by itself")
        batch = self._tokens(texts, return_offsets_mapping=True)
        offsets = batch.pop("offset_mapping").tolist()
        states = self.model.text_model(**batch).last_hidden_state.float()
        found = []
        for text, row, vectors in zip(texts, offsets, states, strict=True):
            spans = [token_span(text, *ends) for ends in row]
            kept = [i for i, span in enumerate(spans) if span]
            found.append(TokenVectors([span for span in spans if span], vectors[kept]))
        return found

    def similarity(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return the cosine of each image with each text, [N, M], -1..1."""
        return functional.normalize(images, dim=1) @ functional.normalize(texts, dim=1).T

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the cosine of each picture with its text, float32 [N], -1..1."""
        seen = self.encode_images(pixels_of(pictures, self.preprocess).to(self._device))
        return functional.cosine_similarity(seen, self.encode_texts(texts))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, start and end included, before it is cut."""
        return [len(ids) for ids in self._tokenizer(list(texts), verbose=False).input_ids]

    def _tokens(self, texts: Sequence[str], **options: Any) -> Any:
        return self._tokenizer(
            list(texts),
            padding=self._padding,
            truncation=True,
            max_length=self.context_length,
            return_tensors="pt",
            **options,
        ).to(self._device)


def _pooled(output: Any) -> Tensor:
    """Return the one vector of each input, float32 [N, D], out of what a tower returns."""
    vectors: Tensor = getattr(output, "pooler_output", output)
    if vectors.ndim != 2:
        shape = list(vectors.shape)
        raise CannotDo(f"a tower gives vectors of shape {shape}; one of each input is expected")
    return vectors.float()


def _steps(recipe: Mapping[str, Any], name: str) -> Compose:
    """Return resizing and cropping as an image processor says it."""
    size, crop = recipe["size"], recipe.get("crop_size")
    cropped = recipe.get("do_center_crop") and crop
    edges = [size["height"], size["width"]] if "height" in size else size.get("shortest_edge")
    if edges is None or not (cropped or "height" in size):
        raise WeightsError(f"{name}: images resized to {dict(size)} are not all of one size")
    steps = [Resize(edges, InterpolationMode[Resampling(recipe["resample"]).name])]
    if cropped:
        steps.append(CenterCrop([crop["height"], crop["width"]]))
    return Compose([*steps, ToTensor()])


def _normaliser(recipe: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return mean and std, [3, 1, 1] each, that do to [0, 1] all that a processor does to 0..255.

    EfficientNet's, which ALIGN uses, may move pixels by one and may divide by the std once more.
    """
    mean, std = (torch.tensor(recipe[f"image_{k}"]).view(3, 1, 1) for k in ("mean", "std"))
    scale = 255 * recipe.get("rescale_factor", 1 / 255)
    offset = 1.0 if recipe.get("rescale_offset") else 0.0
    if not recipe.get("do_normalize", True):
        mean, std = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
    if recipe.get("include_top"):
        std = std * torch.tensor(recipe["image_std"]).view(3, 1, 1)
    return (mean + offset) / scale, std / scale
