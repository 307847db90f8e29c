"""LXMERT. Tan and Bansal 2019, arXiv:1908.07490."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, LxmertForPreTraining

from vlbench.adapter_kit.attention import joint_attention
from vlbench.adapter_kit.hugging_face import Source, draw_model
from vlbench.adapter_kit.regions import pad_regions, regions_of
from vlbench.adapter_kit.text import TextReader
from vlbench.capabilities import JointAttention, Picture
from vlbench.errors import CannotDo, DataError


class Lxmert:
    """A transformer of three parts: one for texts, one for regions, one across both.

    `architecture` is a name of the hub, at `revision`, or a folder in the library's own format.
    `weights` is "pretrained" (the architecture's own), a folder in its place, or "random", drawn
    with `init_seed`. Boxes are read as shares of the image's width and height.
    """

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
        source = Source(architecture, weights, revision)
        config = source.load(AutoConfig)
        if config.model_type != "lxmert":
            raise CannotDo(f"{source.name} is no LXMERT")
        missing: list[str] = []
        if weights == "random":
            model = draw_model(LxmertForPreTraining, config, init_seed)
        else:
            model, missing = source.load_model(LxmertForPreTraining, config)
        source.refuse([key for key in missing if key.startswith("lxmert.")])
        self._has_head = not any(key.startswith("cls.seq_relationship") for key in missing)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._reader = TextReader(source, config.max_position_embeddings)
        self.context_length: int = self._reader.limit
        self._width: int = config.visual_feat_dim
        self._device = device
        self._dtype = dtype

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each region, in each cross layer.

        The softmax is over the regions alone. The way back, from regions to words, is left out.
        """
        inputs, spans = self._inputs(pictures, texts)
        output = self.model.lxmert(**inputs, output_attentions=True)
        boxes = [regions.boxes for regions in regions_of(pictures)]
        columns = [range(len(one)) for one in boxes]
        return joint_attention(output.cross_encoder_attentions, spans, columns, boxes, whole=False)

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the probability that each text belongs to its picture, float32 [N].

        Raises CannotDo for a checkpoint without the matching head.
        """
        if not self._has_head:
            raise CannotDo("this checkpoint has no matching head")
        pooled = self.model.lxmert(**self._inputs(pictures, texts)[0]).pooled_output
        # Label 1 is a match.
        scores: Tensor = self.model.cls.seq_relationship(pooled).float().softmax(-1)[:, 1]
        return scores

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones included, before it is cut."""
        return self._reader.count(texts)

    def _inputs(
        self, pictures: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[dict[str, Any], list[Any]]:
        """Return what the model takes, and the spans of each text."""
        batch = pad_regions(regions_of(pictures), [self._width], self._device)
        if 0 in batch.counts:
            raise DataError(f"picture {batch.counts.index(0)} of the batch has no regions")
        tokens, spans = self._reader.read(texts, self._device)
        inputs = {
            **tokens,
            "visual_feats": batch.vectors.to(self._dtype),
            "visual_pos": batch.corners.to(self._dtype),
            "visual_attention_mask": batch.mask,
        }
        return inputs, spans
