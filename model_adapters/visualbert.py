"""VisualBERT. Li et al. 2019, arXiv:1908.03557; its heads looked at in ACL 2020.acl-main.469."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, VisualBertForPreTraining

from vlbench.adapter_kit.attention import joint_attention
from vlbench.adapter_kit.hugging_face import Source, draw_model, load_state
from vlbench.adapter_kit.regions import RegionBatch, pad_regions, regions_of
from vlbench.adapter_kit.text import TextReader
from vlbench.adapter_kit.weights import read_state_dict
from vlbench.capabilities import JointAttention, Picture
from vlbench.errors import CannotDo

# What the original code's names begin with, or hold, and what the library calls it.
RENAMED = {
    "bert.bert.": "visual_bert.",
    "bert.cls.": "cls.",
    "token_type_embeddings_visual": "visual_token_type_embeddings",
    "position_embeddings_visual": "visual_position_embeddings",
    "embeddings.projection.": "embeddings.visual_projection.",
}

# x1/W, y1/H, x2/W, y2/H, w/W, h/H, which some models read behind a region's own numbers.
BOX_NUMBERS = 6


class VisualBert:
    """A BERT that reads a text and ready-made regions as one sequence.

    `architecture` is a name of the hub, at `revision`, or a folder in the library's own format.
    `weights` is "pretrained" (the architecture's own), a folder in its place, a file of the
    original code, or "random", drawn with `init_seed`. `tokenizer` is where the tokenizer comes
    from, at `tokenizer_revision`; empty: from the same place as the weights. Regions have the
    visual token type and the visual position 0, as in the original code; the library's default
    type is 1. A model six numbers wider than the regions also reads each region's box.
    """

    def __init__(  # noqa: PLR0913 - models.yaml fills them by name
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
        file = Path(weights).expanduser()
        source = Source(architecture, "random" if file.is_file() else weights, revision)
        config = source.load(AutoConfig)
        if config.model_type != "visual_bert" or config.bypass_transformer:
            raise CannotDo(f"{source.name} is no VisualBERT whose layers read regions")
        model, missing = _build(source, config, weights, init_seed)
        source.refuse([key for key in missing if key.startswith("visual_bert.")])
        self._has_head = not any(key.startswith("cls.seq_relationship") for key in missing)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        named = Source(tokenizer, "pretrained", tokenizer_revision) if tokenizer else source
        self._reader = TextReader(named, config.max_position_embeddings)
        self.context_length: int = self._reader.limit
        self._width: int = config.visual_embedding_dim
        self._device = device
        self._dtype = dtype

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each region, out of that to all tokens."""
        inputs, spans, batch = self._inputs(pictures, texts)
        output = self.model.visual_bert(**inputs, output_attentions=True)
        start = inputs["input_ids"].shape[1]
        columns = [range(start, start + count) for count in batch.counts]
        boxes = [regions.boxes for regions in regions_of(pictures)]
        return joint_attention(output.attentions, spans, columns, boxes, whole=True)

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the probability that each text belongs to its picture, float32 [N].

        Raises CannotDo for a checkpoint without the sentence-image prediction head.
        """
        if not self._has_head:
            raise CannotDo("this checkpoint has no sentence-image prediction head")
        output = self.model(**self._inputs(pictures, texts)[0])
        # Label 0 is a match, as it is the next sentence in BERT.
        scores: Tensor = output.seq_relationship_logits.float().softmax(-1)[:, 0]
        return scores

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones included, before it is cut."""
        return self._reader.count(texts)

    def _inputs(
        self, pictures: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[Any, list[Any], RegionBatch]:
        """Return what the model takes, the spans of each text, and the regions."""
        tokens, spans = self._reader.read(texts, self._device)
        widths = [self._width, self._width - BOX_NUMBERS]
        batch = pad_regions(regions_of(pictures), widths, self._device)
        inputs = {
            **tokens,
            "visual_embeds": self._described(batch).to(self._dtype),
            "visual_attention_mask": batch.mask,
            "visual_token_type_ids": torch.zeros_like(batch.mask),
        }
        return inputs, spans, batch

    def _described(self, batch: RegionBatch) -> Tensor:
        """Return the vectors as wide as the model reads them, [N, R, D]."""
        if batch.vectors.shape[-1] == self._width:
            return batch.vectors
        sizes = batch.corners[..., 2:] - batch.corners[..., :2]
        return torch.cat([batch.vectors, batch.corners, sizes], -1)


def _build(source: Source, config: Any, weights: str, seed: int) -> tuple[Any, list[str]]:
    """Return a model, and the names of the weights that its files lack."""
    file = Path(weights).expanduser()
    if weights == "random":
        return draw_model(VisualBertForPreTraining, config, seed), []
    if file.is_file():
        state = _renamed(read_state_dict(file))
        return load_state(VisualBertForPreTraining, config, state, file)
    return source.load_model(VisualBertForPreTraining, config)


def _renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the original code's weights under the library's names."""
    renamed = {}
    for key, value in state.items():
        name = key
        for old, new in RENAMED.items():
            name = name.replace(old, new)
        renamed[name] = value
    return renamed
