"""BLIP. Li et al. 2022, arXiv:2201.12086."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode, Normalize
from torchvision.transforms.functional import resize, to_tensor
from transformers import AutoConfig, BlipForImageTextRetrieval
from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

from vlbench.adapter_kit.attention import joint_attention, patch_boxes
from vlbench.adapter_kit.hugging_face import Source, draw_model
from vlbench.adapter_kit.images import images_of, pixels_of
from vlbench.adapter_kit.text import TextReader
from vlbench.capabilities import JointAttention, Picture
from vlbench.errors import CannotDo


class Blip:
    """A text encoder whose layers look at the patches of an image, which a ViT encodes.

    `architecture` is a name of the hub, at `revision`, or a folder in the library's own format.
    `weights` is "pretrained" (the architecture's own), a folder in its place, or "random", drawn
    with `init_seed`. Images are squashed to the model's square.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "Salesforce/blip-itm-base-coco",
        weights: str = "pretrained",
        revision: str = "main",
        init_seed: int = 0,
    ) -> None:
        source = Source(architecture, weights, revision)
        config = source.load(AutoConfig)
        if config.model_type != "blip":
            raise CannotDo(f"{source.name} is no BLIP")
        if weights == "random":
            model = draw_model(BlipForImageTextRetrieval, config, init_seed)
        else:
            model, missing = source.load_model(BlipForImageTextRetrieval, config)
            source.refuse(missing)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._reader = TextReader(source, config.text_config.max_position_embeddings)
        self.context_length: int = self._reader.limit
        self._side: int = config.vision_config.image_size
        self._patches = self._side // config.vision_config.patch_size
        self._normalise = Normalize(OPENAI_CLIP_MEAN, OPENAI_CLIP_STD)
        self._device = device
        self._dtype = dtype

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each patch, in each layer.

        The softmax is over the image's tokens alone. Its class token, which is no part of the
        picture, has no column, and what the patches get is scaled to sum to 1.
        """
        output, spans = self._read(pictures, texts)
        layers = [
            patches / patches.sum(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
            for patches in (layer[..., 1:].float() for layer in output.cross_attentions)
        ]
        boxes = [
            patch_boxes(self._patches, self._patches, image.size) for image in images_of(pictures)
        ]
        columns = [range(len(one)) for one in boxes]
        return joint_attention(layers, spans, columns, boxes, whole=False)

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the probability of the matching head that text and picture fit, float32 [N]."""
        output, _ = self._read(pictures, texts)
        logits = self.model.itm_head(output.last_hidden_state[:, 0])
        # Label 1 is a match.
        scores: Tensor = logits.float().softmax(-1)[:, 1]
        return scores

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones included, before it is cut."""
        return self._reader.count(texts)

    def _read(self, pictures: Sequence[Picture], texts: Sequence[str]) -> tuple[Any, list[Any]]:
        """Return what the text encoder gives while it looks at the image, and the spans."""
        pixels = self._normalise(pixels_of(pictures, self._pixels)).to(self._device, self._dtype)
        seen = self.model.vision_model(pixel_values=pixels).last_hidden_state
        tokens, spans = self._reader.read(texts, self._device)
        output = self.model.text_encoder(
            input_ids=tokens["input_ids"],
            attention_mask=tokens["attention_mask"],
            encoder_hidden_states=seen,
            output_attentions=True,
        )
        return output, spans

    def _pixels(self, image: Any) -> Tensor:
        """Return float32 [3, side, side] in [0, 1]."""
        square = [self._side, self._side]
        pixels: Tensor = to_tensor(resize(image, square, InterpolationMode.BICUBIC))
        return pixels
