"""ViLBERT. Lu et al. 2019, arXiv:1908.02265, and 2020, arXiv:1912.02315 (12-in-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor
from vilbert_network import (
    BOX_NUMBERS,
    MATCH,
    RETRIEVAL,
    TASKS,
    Encoded,
    Inputs,
    Network,
    fill_sizes,
)

from vlbench.adapter_kit.attention import cross_attention, without_whole
from vlbench.adapter_kit.bert_ports import BertPort, require_port
from vlbench.adapter_kit.cuts import CrossAttention, cut_copy, parts_of, with_donors, without
from vlbench.adapter_kit.regions import box_geometry, boxes_of, pad_regions, regions_of
from vlbench.adapter_kit.text import Spans, TextReader
from vlbench.adapter_kit.weights import read_state_dict
from vlbench.capabilities import Cut, JointAttention, Parts, Picture
from vlbench.errors import CannotDo, DataError, SpecError, WeightsError

# A weight that only multi-task networks have.
TASK_TOKENS = "bert.embeddings.task_embeddings.weight"

# Weights of a connection that are stored but never used.
UNUSED = ".biOutput.q_dense"


class Vilbert:
    """Two transformers, for texts and for regions, with cross-attention in some layers.

    The `limit` is 30 in the original retrieval tasks.

    Args:
        architecture: BERT on the hub, or a folder, that gives the configuration and the tokenizer.
        revision: branch, tag or commit of the architecture on the hub.
        weights: file of the original code, or `random` (drawn as in BERT).
        source: where the file can be downloaded, for the message if it is missing.
        retrieval: whether the score is from the head fine-tuned for retrieval; else it is from the
            head of pre-training.
        task: task whose token every text gets, for multi-task networks, 0 to 19 (7 retrieval
            on COCO, 8 on Flickr30k); None: no token.
        limit: most tokens of a text, with special tokens; the rest is cut.
        init_seed: seed that draws random weights.
    """

    require_weights = staticmethod(require_port)
    _cut = Cut()

    def __init__(  # noqa: PLR0913 - models.yaml fills them by name
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "bert-base-uncased",
        revision: str = "main",
        weights: str = "pretrained_model.bin",
        source: str = "",
        retrieval: bool = False,
        task: int | None = None,
        limit: int = 30,
        init_seed: int = 0,
    ) -> None:
        if task is not None and not 0 <= task < TASKS:
            raise SpecError(f"task {task} is outside 0..{TASKS - 1}")
        port = BertPort(architecture, revision, weights, source, init_seed)
        config = fill_sizes(port.config)
        self._head = RETRIEVAL if retrieval else MATCH
        self.score_kind = "ranking_logit" if retrieval else "logit"
        stored = read_state_dict(port.file) if port.file else {}
        self._has_head = not port.file or any(key.startswith(f"{self._head}.") for key in stored)
        if TASK_TOKENS in stored and task is None:
            tasks = "7 for retrieval on COCO, 8 on Flickr30k"
            raise WeightsError(
                f"{port.file} has heads for several tasks; choose one with task=N ({tasks})"
            )
        prefixes = ("bert.", f"{self._head}.")
        state = {k: v for k, v in stored.items() if k.startswith(prefixes) and UNUSED not in k}
        head = self._head if self._has_head else ""
        self.network = port.open(lambda: Network(config, head, task), state, device, dtype)
        most = min(limit, config.max_position_embeddings)
        self._reader = TextReader(port.tokenizer(), most, device)
        self.context_length: int = self._reader.limit
        self.count_tokens = self._reader.count
        self._width: int = config.v_feature_size
        self._has_token = task is not None
        self._device = device

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each region, in each connection.

        The softmax is over the image only. The whole image is not a region, so it has no column,
        and the attention to regions is scaled to sum to 1.
        """
        inputs, spans = self._inputs(pictures, texts)
        layers = without_whole(joined.to_regions for joined in self._run(inputs).connections)
        return cross_attention(layers, spans, boxes_of(pictures))

    @with_donors
    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the matching score of each text and its picture, float32 [N].

        It is the log-odds of a match, or with `retrieval` the logit that retrieval ranks by, which
        does not correspond to a probability. Raises CannotDo for a checkpoint without the head.
        """
        if not self._has_head:
            raise CannotDo(f"this checkpoint has no head {self._head}")
        scores: Tensor = self.network.scores(self._run(self._inputs(pictures, texts)[0]))
        return scores

    def parts(self) -> Parts:
        """Return the heads of the connections from text to image."""
        return parts_of(self._layers(), "image", "text")

    def cut(self, what: Cut) -> Self:
        """Return the model without some parts. Raises SpecError for parts that it does not have.

        If looks from text to image are cut, the states of the text do not depend on the picture;
        the score does, because it is computed from the product of both streams.
        """
        return cut_copy(self, what, self._layers()[0].projections)

    def _run(self, inputs: Inputs) -> Encoded:
        with without(self._cut, self._layers):
            encoded: Encoded = self.network(inputs)
        return encoded

    def _layers(self) -> list[CrossAttention]:
        layers, encoder = [], self.network.bert["encoder"]
        for layer in encoder["c_layer"]:
            dense = layer.biOutput
            looks = {("text", "image"): dense["dense2"], ("image", "text"): dense["dense1"]}
            layers.append(CrossAttention(looks, layer.heads))
        return layers

    def _inputs(
        self, pictures: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[Inputs, list[Spans]]:
        """Return the inputs of the network, and the spans of each text with its task's token."""
        batch = pad_regions(regions_of(pictures), [self._width], self._device)
        if 0 in batch.counts:
            raise DataError(f"picture {batch.counts.index(0)} of the batch has no regions")
        tokens, spans = self._reader.read(texts)
        text_mask = tokens["attention_mask"]
        if self._has_token:
            text_mask = torch.cat([text_mask[:, :1], text_mask], 1)
            spans = [[*row[:1], None, *row[1:]] for row in spans]
        # The whole image is the mean of its regions, in a box of its full size.
        count = batch.mask.sum(1, keepdim=True)
        mean = batch.vectors.sum(1) / count
        boxes = box_geometry(batch.corners, BOX_NUMBERS)
        around = boxes.new_tensor([0, 0, 1, 1, 1]).expand(len(boxes), 1, -1)
        inputs = Inputs(
            tokens["input_ids"],
            text_mask,
            torch.cat([mean[:, None], batch.vectors], 1),
            torch.cat([around, boxes], 1),
            torch.cat([torch.ones_like(count), batch.mask], 1),
        )
        return inputs, spans
