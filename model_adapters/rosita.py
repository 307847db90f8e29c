"""ROSITA. Cui et al. 2021, arXiv:2108.07073; a port of the code at github.com/MILVLG/rosita."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
from vlbench.adapter_kit.matching_heads import log_odds
from vlbench.adapter_kit.one_stream_ports import Inputs, OneStreamPort
from vlbench.adapter_kit.text import Spans, TextReader
from vlbench.adapter_kit.weights import read_weights, rename_key

# The width of a region if the configuration has no `imgfeat_size`; how many numbers a box has.
REGION_WIDTH = 2048
BOX_NUMBERS = 5

# The parts of a file that the network has; only the head may be absent from a file.
HEAD = "mm_itm_head"
PARTS = ("text_embeddings", "visual_embeddings", "backbone", "pooler", HEAD)

# Parts of the original code's names, and their names in transformers.
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

# The characters that the original code deletes from a text.
PUNCTUATION = re.compile(r"[^\s\w]|_")


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
    """The network: its parts under the original names, their contents under transformers'."""

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
        return torch.cat([text, self.visual_embeddings(inputs.vectors, inputs.boxes)], 1)

    def forward(self, inputs: Inputs) -> Encoded:
        """Return the hidden states and the attention of each layer."""
        layers: Any = self.backbone["layers"]
        return run_layers(layers, self.embed(inputs), inputs.mask)

    def scores(self, states: Tensor) -> Tensor:
        """Return the log-odds of a match, float32 [N], of the last hidden states."""
        head: Any = self.get_submodule(HEAD)
        # Label 1 is a match.
        return log_odds(head["dense"](self.pooler(states)), match=1)


class PlainReader(TextReader):
    """Reads texts without punctuation. Spans refer to the texts as given."""

    def read(self, texts: Sequence[str]) -> tuple[Any, list[Spans]]:
        """Return the tokens of N texts, and for each text the spans of its T tokens."""
        tokens, spans = super().read([PUNCTUATION.sub("", text) for text in texts])
        return tokens, [_whole_spans(*pair) for pair in zip(texts, spans, strict=True)]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, with special tokens, before the cut."""
        return super().count([PUNCTUATION.sub("", text) for text in texts])


class Rosita(OneStreamPort):
    """A BERT that reads a text without punctuation and ready-made regions as one sequence.

    The original code fine-tunes for retrieval with a `limit` of 30.

    Args:
        architecture: BERT on the hub, or a folder, that gives the configuration and the tokenizer.
        revision: branch, tag or commit of the architecture on the hub.
        weights: file of the original code, or `random` (drawn as in BERT).
        source: where the file can be downloaded, for the message if it is missing.
        limit: most tokens of a text, with special tokens; the rest is cut.
        init_seed: seed that draws random weights.
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
        network = port.open(lambda: Network(port.config, has_head=has_head), state, device, dtype)
        most = min(limit, port.config.max_position_embeddings)
        reader = PlainReader(port.tokenizer(), most, device)
        width = getattr(port.config, "imgfeat_size", REGION_WIDTH)
        super().__init__(network, reader, width, BOX_NUMBERS, has_head=has_head)


def _whole_spans(text: str, spans: Spans) -> Spans:
    """Return the spans in a text of spans in the same text without punctuation."""
    kept = [i for i, character in enumerate(text) if not PUNCTUATION.fullmatch(character)]
    return [span and (kept[span[0]], kept[span[1] - 1] + 1) for span in spans]


def _read(file: Path) -> dict[str, Any]:
    """Return the weights of a file, which has a state dict for each part of the network."""
    content = read_weights(file, past_pickles=True)
    state = {}
    for part in PARTS:
        held = content.get(part)
        for key, value in held.items() if isinstance(held, Mapping) else ():
            if isinstance(value, Tensor):
                state[rename_key(f"{part}.{key}", RENAMED)] = value
    return state
