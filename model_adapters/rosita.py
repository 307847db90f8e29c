"""ROSITA. Cui et al. 2021, arXiv:2108.07073; a port of the code at github.com/MILVLG/rosita."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vlbench.adapter_kit.bert_ports import (
    BertPort,
    Encoded,
    bert_layers,
    bert_part,
    require_port,
    run_layers,
)
from vlbench.adapter_kit.image_tokens import one_stream_attention
from vlbench.adapter_kit.regions import RegionBatch, box_geometry, pad_regions, regions_of
from vlbench.adapter_kit.text import Spans, TextReader
from vlbench.adapter_kit.weights import read_weights
from vlbench.capabilities import JointAttention, Picture
from vlbench.errors import CannotDo

# How wide a region is where the configuration has no `imgfeat_size`; how many numbers a box has.
REGION_WIDTH = 2048
BOX_NUMBERS = 5

# The parts of a file that the network has; the head is the only one that a file may lack.
HEAD = "mm_itm_head"
PARTS = ("text_embeddings", "visual_embeddings", "backbone", "pooler", HEAD)

# Parts of the original code's names, and what transformers calls them.
RENAMED = {
    "text_embeddings.layer_norm.": "text_embeddings.LayerNorm.",
    "mhatt.dense_q.": "attention.self.query.",
    "mhatt.dense_k.": "attention.self.key.",
    "mhatt.dense_v.": "attention.self.value.",
    "mhatt.dense_merge.": "attention.output.dense.",
    "layer_norm0.": "attention.output.LayerNorm.",
    "ffn.dense0.": "intermediate.dense.",
    "ffn.dense1.": "output.dense.",
    "layer_norm1.": "output.LayerNorm.",
}

# What the original code deletes from a text.
PUNCTUATION = re.compile(r"[^\s\w]|_")


class Inputs(NamedTuple):
    """Ids of tokens [N, T], regions padded to R, and a mask [N, T + R], 1 where there is either."""

    ids: Tensor
    regions: RegionBatch
    mask: Tensor


class RegionEmbeddings(nn.Module):
    """Embeds regions [N, R, D] and their boxes [N, R, 5]."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.dense_imgfeat = nn.Linear(getattr(config, "imgfeat_size", REGION_WIDTH), width)
        self.dense_bboxfeat = nn.Linear(BOX_NUMBERS, width)
        self.layer_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def forward(self, vectors: Tensor, boxes: Tensor) -> Tensor:
        """Return [N, R, hidden]."""
        embedded: Tensor = self.layer_norm(self.dense_imgfeat(vectors) + self.dense_bboxfeat(boxes))
        return embedded


class Network(nn.Module):
    """The network: its parts under the original names, what is in them under transformers'."""

    def __init__(self, config: Any, *, has_head: bool) -> None:
        super().__init__()
        self.text_embeddings = bert_part("BertEmbeddings", config)
        self.visual_embeddings = RegionEmbeddings(config)
        self.backbone = nn.ModuleDict({"layers": bert_layers(config)})
        self.pooler = bert_part("BertPooler", config)
        if has_head:
            self.add_module(HEAD, nn.ModuleDict({"dense": nn.Linear(config.hidden_size, 2)}))

    def embed(self, inputs: Inputs) -> Tensor:
        """Return the embeddings of texts and regions as one sequence, [N, T + R, hidden]."""
        text: Tensor = self.text_embeddings(inputs.ids)
        boxes = box_geometry(inputs.regions.corners, BOX_NUMBERS).to(text.dtype)
        vectors = inputs.regions.vectors.to(text.dtype)
        return torch.cat([text, self.visual_embeddings(vectors, boxes)], 1)

    def forward(self, inputs: Inputs) -> Encoded:
        """Return the hidden states and the attention of each layer."""
        layers: Any = self.backbone["layers"]
        return run_layers(layers, self.embed(inputs), inputs.mask)

    def scores(self, states: Tensor) -> Tensor:
        """Return the probability of a match, float32 [N], of the last hidden states."""
        head: Any = self.get_submodule(HEAD)
        logits: Tensor = head["dense"](self.pooler(states))
        # Label 1 is a match.
        return logits.float().softmax(-1)[:, 1]


class Rosita:
    """A BERT that reads a text without punctuation and ready-made regions as one sequence.

    `architecture`, `revision`, `weights`, `source` and `init_seed` are those of
    `vlbench.adapter_kit.bert_ports.BertPort`. `limit` is the number of tokens to which a text is
    cut, special ones included; the original code fine-tunes for retrieval with 30.
    """

    require_weights = staticmethod(require_port)

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "bert-base-uncased",
        revision: str = "main",
        weights: str = "rosita-base.pkl",
        source: str = "",
        limit: int = 30,
        init_seed: int = 0,
    ) -> None:
        port = BertPort(architecture, revision, weights, source, init_seed)
        state = _read(port.file) if port.file else {}
        has_head = not port.file or any(key.startswith(HEAD) for key in state)
        self.network = port.open(
            lambda: Network(port.config, has_head=has_head), state, device, dtype
        )
        self._has_head = has_head
        most = min(limit, port.config.max_position_embeddings)
        self._reader = TextReader(port.tokenizer(), most, device)
        self.context_length: int = self._reader.limit
        self._width: int = getattr(port.config, "imgfeat_size", REGION_WIDTH)
        self._device = device

    def attend(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[JointAttention]:
        """Return the attention of each text token to each region, out of its attention to all."""
        inputs, spans = self._inputs(pictures, texts)
        layers = self.network(inputs).attentions
        boxes = [regions.boxes for regions in regions_of(pictures)]
        return one_stream_attention(layers, spans, boxes, start=inputs.ids.shape[1])

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the probability that each text belongs to its picture, float32 [N].

        Raises CannotDo for a checkpoint without the matching head.
        """
        if not self._has_head:
            raise CannotDo("this checkpoint has no matching head")
        states = self.network(self._inputs(pictures, texts)[0]).states[-1]
        scores: Tensor = self.network.scores(states)
        return scores

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones included, before it is cut."""
        return self._reader.count([PUNCTUATION.sub("", text) for text in texts])

    def _inputs(
        self, pictures: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[Inputs, list[Spans]]:
        """Return the inputs of the network, and the spans of each text as it was given."""
        tokens, spans = self._reader.read([PUNCTUATION.sub("", text) for text in texts])
        regions = pad_regions(regions_of(pictures), [self._width], self._device)
        mask = torch.cat([tokens["attention_mask"], regions.mask], 1)
        given = [_given(*one) for one in zip(texts, spans, strict=True)]
        return Inputs(tokens["input_ids"], regions, mask), given


def _given(text: str, spans: Spans) -> Spans:
    """Return the characters of a text at spans of the same text without punctuation."""
    kept = [i for i, character in enumerate(text) if not PUNCTUATION.fullmatch(character)]
    return [span and (kept[span[0]], kept[span[1] - 1] + 1) for span in spans]


def _read(file: Path) -> dict[str, Any]:
    """Return the weights of a file, which has a state dict for each part of the network."""
    content = read_weights(file, past_pickles=True)
    state = {}
    for part in PARTS:
        held = content.get(part)
        for key, value in held.items() if isinstance(held, Mapping) else ():
            name = f"{part}.{key}"
            for old, new in RENAMED.items():
                name = name.replace(old, new)
            if isinstance(value, Tensor):
                state[name] = value
    return state
