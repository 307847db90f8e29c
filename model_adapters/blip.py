"""BLIP. Li et al. 2022, arXiv:2201.12086."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from vlbench.adapter_kit.attention import cross_attention, patch_boxes, without_whole
from vlbench.adapter_kit.cuts import CrossAttention, cut_copy, parts_of, with_donors, without
from vlbench.adapter_kit.hugging_face import Checkpoint, JointModel, require_checkpoint
from vlbench.adapter_kit.images import CLIP, images_of, normalise, pixels_of, resizing
from vlbench.adapter_kit.matching_heads import log_odds
from vlbench.adapter_kit.text import Spans
from vlbench.capabilities import Cut, JointAttention, Parts, Picture


class Blip(JointModel):
    """A text encoder with cross-attention to the patches of an image, which a ViT encodes.

    Images are squashed to the model's square.

    Args:
        architecture: name of a model on the hub, or a folder in transformers' format.
        weights: `pretrained` (the architecture's), a folder that replaces it, or `random`.
        revision: branch, tag or commit of the architecture on the hub.
        init_seed: seed that draws random weights.
    """

    require_weights = staticmethod(require_checkpoint)
    score_kind = "logit"
    _cut = Cut()

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
        checkpoint = Checkpoint(architecture, weights, revision, init_seed)
        opened = checkpoint.open("BlipForImageTextRetrieval", device, dtype)
        super().__init__(opened, "itm_head", checkpoint.tokenizer())
        vision = opened.config.vision_config
        self._pixels = resizing(vision.image_size, squash=True)
        self._patches: int = vision.image_size // vision.patch_size

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each patch, in each layer.

        The softmax is over the image's tokens only. The image's class token is not a part of the
        picture, so it has no column, and the attention to the patches is scaled to sum to 1.
        """
        output, spans = self._read(pictures, texts)
        boxes = [
            patch_boxes(self._patches, self._patches, image.size) for image in images_of(pictures)
        ]
        return cross_attention(without_whole(output.cross_attentions), spans, boxes)

    @with_donors
    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the matching head's log-odds that text and picture fit, float32 [N]."""
        output, _ = self._read(pictures, texts)
        # Label 1 is a match.
        return log_odds(self.model.itm_head(output.last_hidden_state[:, 0]), match=1)

    def parts(self) -> Parts:
        """Return the heads of the text encoder's cross-attention, from text to image."""
        return parts_of(self._layers(), "image", "text")

    def cut(self, what: Cut) -> Self:
        """Return the model without some parts. Raises SpecError for parts that it does not have."""
        return cut_copy(self, what, self._layers()[0].projections)

    def _layers(self) -> list[CrossAttention]:
        layers = []
        for layer in self.model.text_encoder.encoder.layer:
            block = layer.crossattention
            looks = {("text", "image"): block.output.dense}
            layers.append(CrossAttention(looks, block.self.num_attention_heads))
        return layers

    def _read(self, pictures: Sequence[Picture], texts: Sequence[str]) -> tuple[Any, list[Spans]]:
        """Return the output of the text encoder, and the spans of each text."""
        pixels = normalise(pixels_of(pictures, self._pixels), *CLIP).to(self._device, self._dtype)
        patches = self.model.vision_model(pixel_values=pixels).last_hidden_state
        tokens, spans = self._reader.read(texts)
        with without(self._cut, self._layers):
            output = self.model.text_encoder(
                input_ids=tokens["input_ids"],
                attention_mask=tokens["attention_mask"],
                encoder_hidden_states=patches,
                output_attentions=True,
            )
        return output, spans
