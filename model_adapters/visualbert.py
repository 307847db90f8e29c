"""VisualBERT. Li et al. 2019, arXiv:1908.03557; its heads are examined in ACL 2020.acl-main.469."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from vlbench.adapter_kit.attention import one_stream_attention
from vlbench.adapter_kit.cuts import (
    Positions,
    cut_copy,
    one_stream_layers,
    parts_of,
    with_donors,
    without,
)
from vlbench.adapter_kit.hugging_face import Checkpoint, JointModel
from vlbench.adapter_kit.matching_heads import log_odds
from vlbench.adapter_kit.regions import RegionBatch, box_geometry, boxes_of, pad_regions, regions_of
from vlbench.adapter_kit.text import Spans
from vlbench.adapter_kit.weights import rename_key
from vlbench.capabilities import Cut, JointAttention, Parts, Picture
from vlbench.errors import CannotDo

# Parts of the original code's names, and their names in transformers.
RENAMED = {
    "bert.bert.": "visual_bert.",
    "bert.cls.": "cls.",
    "token_type_embeddings_visual": "visual_token_type_embeddings",
    "position_embeddings_visual": "visual_position_embeddings",
    "embeddings.projection.": "embeddings.visual_projection.",
}

# Numbers that describe a region's box, for models that read them after the region's vector.
BOX_NUMBERS = 6


class VisualBert(JointModel):
    """A BERT that reads a text and ready-made regions as one sequence.

    Regions have the visual token type 0 and the visual position 0, as in the original code; the
    default type of transformers is 1. A model whose regions are six numbers wider than the data's
    also reads the box of each region.

    Args:
        architecture: name of a model on the hub, or a folder in transformers' format.
        weights: `pretrained` (the architecture's), a folder that replaces it, a file of the
            original code, or `random`.
        revision: branch, tag or commit of the architecture on the hub.
        tokenizer: name on the hub, or a folder, that gives the tokenizer; empty: the checkpoint
            itself.
        tokenizer_revision: branch, tag or commit of `tokenizer` on the hub.
        init_seed: seed that draws random weights.
    """

    score_kind = "logit"
    _cut = Cut()

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "uclanlp/visualbert-vqa-coco-pre",
        weights: str = "pretrained",
        revision: str = "main",
        tokenizer: str = "",
        tokenizer_revision: str = "main",
        init_seed: int = 0,
    ) -> None:
        checkpoint = Checkpoint(architecture, weights, revision, init_seed, rename=_rename)
        if getattr(checkpoint.config, "bypass_transformer", False):
            raise CannotDo(
                f"{checkpoint.name} keeps regions out of its layers, so it has no attention to them"
            )
        opened = checkpoint.open("VisualBertForPreTraining", device, dtype, optional_heads=True)
        words = Checkpoint(tokenizer, revision=tokenizer_revision) if tokenizer else checkpoint
        super().__init__(opened, "cls.seq_relationship", words.tokenizer())
        self._width: int = opened.config.visual_embedding_dim

    @staticmethod
    def require_weights(
        *, architecture: str, weights: str, revision: str, tokenizer: str, tokenizer_revision: str
    ) -> None:
        """Raise WeightsError if the weights or the tokenizer are unavailable; read nothing."""
        Checkpoint(architecture, weights, revision, rename=_rename).require_here()
        if tokenizer:
            Checkpoint(tokenizer, "random", tokenizer_revision).require_here()

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each region; all tokens share the softmax."""
        inputs, spans = self._inputs(pictures, texts)
        output = self._run(self.model.visual_bert, inputs, output_attentions=True)
        start = inputs["input_ids"].shape[1]
        return one_stream_attention(output.attentions, spans, boxes_of(pictures), start=start)

    @with_donors
    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the log-odds that each text belongs to its picture, float32 [N].

        Raises CannotDo for a checkpoint that has no sentence-image prediction head.
        """
        if not self._has_head:
            raise CannotDo("this checkpoint has no sentence-image prediction head")
        output = self._run(self.model, self._inputs(pictures, texts)[0])
        # Label 0 is a match, as in the next-sentence prediction of BERT.
        return log_odds(output.seq_relationship_logits, match=0)

    def parts(self) -> Parts:
        """Return the layers' heads; the first token, which the head reads, counts as text."""
        return parts_of(one_stream_layers(self.model), "image", "text")

    def cut(self, what: Cut) -> Self:
        """Return the model without some parts. Raises SpecError for parts that it does not have."""
        return cut_copy(self, what)

    def _run(self, model: Any, inputs: Mapping[str, Any], **options: Any) -> Any:
        """Return the output of the model, or of a part of it, without the parts that are cut."""
        start, regions = inputs["input_ids"].shape[1], inputs["visual_embeds"].shape[1]
        image = Positions(range(start, start + regions))
        with without(self._cut, lambda: one_stream_layers(self.model), image):
            return model(**inputs, **options)

    def _inputs(
        self, pictures: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[dict[str, Any], list[Spans]]:
        """Return the inputs of the model, and the spans of each text."""
        tokens, spans = self._reader.read(texts)
        widths = [self._width, self._width - BOX_NUMBERS]
        batch = pad_regions(regions_of(pictures), widths, self._device)
        inputs = {
            **tokens,
            "visual_embeds": self._describe(batch).to(self._dtype),
            "visual_attention_mask": batch.mask,
            "visual_token_type_ids": torch.zeros_like(batch.mask),
        }
        return inputs, spans

    def _describe(self, batch: RegionBatch) -> Tensor:
        """Return the vectors, [N, R, D], with box numbers if the model reads them."""
        if batch.vectors.shape[-1] == self._width:
            return batch.vectors
        return torch.cat([batch.vectors, box_geometry(batch.corners, BOX_NUMBERS)], -1)


def _rename(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the original code's weights under transformers' names."""
    return {rename_key(key, RENAMED): value for key, value in state.items()}
