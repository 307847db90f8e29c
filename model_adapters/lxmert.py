"""LXMERT. Tan and Bansal 2019, arXiv:1908.07490."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from vlbench.adapter_kit.attention import cross_attention
from vlbench.adapter_kit.cuts import CrossAttention, cut_copy, parts_of, with_donors, without
from vlbench.adapter_kit.hugging_face import Checkpoint, JointModel, require_checkpoint
from vlbench.adapter_kit.matching_heads import log_odds
from vlbench.adapter_kit.regions import boxes_of, pad_regions, regions_of
from vlbench.adapter_kit.text import Spans
from vlbench.capabilities import Cut, JointAttention, Parts, Picture
from vlbench.errors import CannotDo, DataError


class Lxmert(JointModel):
    """A transformer with one encoder for texts, one for regions, and one across both.

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
        architecture: str = "unc-nlp/lxmert-base-uncased",
        weights: str = "pretrained",
        revision: str = "main",
        init_seed: int = 0,
    ) -> None:
        checkpoint = Checkpoint(architecture, weights, revision, init_seed)
        opened = checkpoint.open("LxmertForPreTraining", device, dtype, optional_heads=True)
        super().__init__(opened, "cls.seq_relationship", checkpoint.tokenizer())
        self._width: int = opened.config.visual_feat_dim

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each region, in each cross-modal layer.

        The softmax is over the regions only. The attention from regions to text is omitted.
        """
        inputs, spans = self._inputs(pictures, texts)
        output = self._run(inputs, output_attentions=True)
        return cross_attention(output.cross_encoder_attentions, spans, boxes_of(pictures))

    @with_donors
    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the log-odds that each text belongs to its picture, float32 [N].

        Raises CannotDo for a checkpoint that has no matching head.
        """
        if not self._has_head:
            raise CannotDo("this checkpoint has no matching head")
        pooled = self._run(self._inputs(pictures, texts)[0]).pooled_output
        # Label 1 is a match.
        return log_odds(self.model.cls.seq_relationship(pooled), match=1)

    def parts(self) -> Parts:
        """Return the heads of the cross-modal layers.

        A layer attends in both directions with the same weights, so a head is removed in both.
        """
        return parts_of(self._layers(), "image", "text")

    def cut(self, what: Cut) -> Self:
        """Return the model without some parts. Raises SpecError for parts that it does not have."""
        return cut_copy(self, what, self._layers()[0].projections)

    def _run(self, inputs: Mapping[str, Any], **options: Any) -> Any:
        with without(self._cut, self._layers):
            return self.model.lxmert(**inputs, **options)

    def _layers(self) -> list[CrossAttention]:
        layers = []
        for layer in self.model.lxmert.encoder.x_layers:
            block = layer.visual_attention
            looks = dict.fromkeys([("text", "image"), ("image", "text")], block.output.dense)
            layers.append(CrossAttention(looks, block.att.num_attention_heads))
        return layers

    def _inputs(
        self, pictures: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[dict[str, Any], list[Spans]]:
        """Return the inputs of the model, and the spans of each text."""
        batch = pad_regions(regions_of(pictures), [self._width], self._device)
        if 0 in batch.counts:
            raise DataError(f"picture {batch.counts.index(0)} of the batch has no regions")
        tokens, spans = self._reader.read(texts)
        inputs = {
            **tokens,
            "visual_feats": batch.vectors.to(self._dtype),
            "visual_pos": batch.corners.to(self._dtype),
            "visual_attention_mask": batch.mask,
        }
        return inputs, spans
