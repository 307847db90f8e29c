"""Ports of networks that read a text and ready-made regions as one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from vlbench.adapter_kit.attention import one_stream_attention
from vlbench.adapter_kit.bert_ports import Encoded
from vlbench.adapter_kit.cuts import (
    Positions,
    cut_copy,
    one_stream_layers,
    parts_of,
    with_donors,
    without,
)
from vlbench.adapter_kit.regions import box_geometry, boxes_of, pad_regions, regions_of
from vlbench.adapter_kit.text import Spans, TextReader
from vlbench.capabilities import LOGIT, Cut, JointAttention, Parts, Picture
from vlbench.errors import CannotDo


class Inputs(NamedTuple):
    """Ids of tokens [N, T], vectors of regions [N, R, D], their boxes [N, R, B], and a mask.

    The mask [N, T + R] is 1 for a token or a region, else 0.
    """

    ids: Tensor
    vectors: Tensor
    boxes: Tensor
    mask: Tensor


class OneStreamPort:
    """The methods of an adapter whose network reads a text and its regions as one sequence.

    The network, as `BertPort.open` returns it, maps `Inputs` to `Encoded`, and its method `scores`
    maps the last hidden states to the log-odds of a match. It reads region vectors of `width`
    dimensions, and `box_numbers` numbers of each box.
    """

    score_kind = LOGIT
    _cut = Cut()

    def __init__(
        self, network: Any, reader: TextReader, width: int, box_numbers: int, *, has_head: bool
    ) -> None:
        self.network, self._has_head = network, has_head
        self._reader, self._width, self._box_numbers = reader, width, box_numbers
        self.context_length: int = reader.limit
        self.count_tokens = reader.count

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each region; all tokens share the softmax."""
        inputs, spans = self._inputs(pictures, texts)
        layers = self._run(inputs).attentions
        return one_stream_attention(layers, spans, boxes_of(pictures), start=inputs.ids.shape[1])

    @with_donors
    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the log-odds that each text belongs to its picture, float32 [N].

        Raises CannotDo for a checkpoint that has no matching head.
        """
        if not self._has_head:
            raise CannotDo("this checkpoint has no matching head")
        states = self._run(self._inputs(pictures, texts)[0]).states[-1]
        scores: Tensor = self.network.scores(states)
        return scores

    def parts(self) -> Parts:
        """Return the layers' heads; the first token, which the head reads, counts as text."""
        return parts_of(one_stream_layers(self.network), "image", "text")

    def cut(self, what: Cut) -> Self:
        """Return the model without some parts. Raises SpecError for parts that it does not have."""
        return cut_copy(self, what)

    def _run(self, inputs: Inputs) -> Encoded:
        image = Positions(range(inputs.ids.shape[1], inputs.mask.shape[1]))
        with without(self._cut, lambda: one_stream_layers(self.network), image):
            encoded: Encoded = self.network(inputs)
        return encoded

    def _inputs(
        self, pictures: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[Inputs, list[Spans]]:
        """Return the inputs of the network, and the spans of each text."""
        tokens, spans = self._reader.read(texts)
        ids, dtype = tokens["input_ids"], next(self.network.parameters()).dtype
        batch = pad_regions(regions_of(pictures), [self._width], ids.device)
        boxes = box_geometry(batch.corners, self._box_numbers).to(dtype)
        mask = torch.cat([tokens["attention_mask"], batch.mask], 1)
        return Inputs(ids, batch.vectors.to(dtype), boxes, mask), spans
