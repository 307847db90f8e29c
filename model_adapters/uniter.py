"""UNITER. Chen et al. 2020, arXiv:1909.11740; a port of the code at github.com/ChenRocks/UNITER."""

from __future__ import annotations

from collections.abc import Sequence
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
from vlbench.adapter_kit.text import TextReader
from vlbench.adapter_kit.weights import read_state_dict

# The width of a region if the configuration has no `img_dim`, and how many numbers a box has.
REGION_WIDTH = 2048
BOX_NUMBERS = 7

# The heads that score a pair, and their widths: of pre-training, and of fine-tuning for retrieval.
HEADS = {"itm_output": 2, "rank_output": 1}

# An embedding that only masked regions get.
UNUSED = "uniter.img_embeddings.mask_embedding.weight"


class RegionEmbeddings(nn.Module):
    """Embeds regions [N, R, D] and their boxes [N, R, 7], and adds an embedding of their type."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.layer_norm_eps
        self.img_linear = nn.Linear(getattr(config, "img_dim", REGION_WIDTH), width)
        self.img_layer_norm = nn.LayerNorm(width, eps=eps)
        self.pos_linear = nn.Linear(BOX_NUMBERS, width)
        self.pos_layer_norm = nn.LayerNorm(width, eps=eps)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)

    def forward(self, vectors: Tensor, boxes: Tensor, kind: Tensor) -> Tensor:
        """Return [N, R, hidden]."""
        seen = self.img_layer_norm(self.img_linear(vectors))
        embedded: Tensor = self.LayerNorm(seen + self.pos_layer_norm(self.pos_linear(boxes)) + kind)
        return embedded


class Network(nn.Module):
    """The network under the original names, with some of HEADS."""

    def __init__(self, config: Any, heads: Sequence[str]) -> None:
        super().__init__()
        parts = {
            "embeddings": bert_part("BertEmbeddings", config),
            "img_embeddings": RegionEmbeddings(config),
            "encoder": nn.ModuleDict({"layer": bert_layers(config)}),
            "pooler": bert_part("BertPooler", config),
        }
        self.uniter = nn.ModuleDict(parts)
        for head in heads:
            self.add_module(head, nn.Linear(config.hidden_size, HEADS[head]))

    def embed(self, inputs: Inputs) -> Tensor:
        """Return the embeddings of texts and regions as one sequence, [N, T + R, hidden]."""
        words: Any = self.uniter["embeddings"]
        # Regions have token type 1, and no position embedding.
        kind = words.token_type_embeddings.weight[1]
        regions = self.uniter["img_embeddings"](inputs.vectors, inputs.boxes, kind)
        return torch.cat([words(inputs.ids), regions], 1)

    def forward(self, inputs: Inputs) -> Encoded:
        """Return the hidden states and the attention of each layer."""
        encoder: Any = self.uniter["encoder"]
        return run_layers(encoder["layer"], self.embed(inputs), inputs.mask)

    def scores(self, states: Tensor) -> Tensor:
        """Return the log-odds of a match, float32 [N], of the last hidden states."""
        pooled = self.uniter["pooler"](states)
        if hasattr(self, "rank_output"):
            rank: Tensor = self.rank_output(pooled)
            return rank.float()[:, 0]
        # Label 1 is a match.
        return log_odds(self.itm_output(pooled), match=1)


class Uniter(OneStreamPort):
    """A BERT that reads a text and ready-made regions as one sequence.

    The published networks read the cased vocabulary of `bert-base-cased`. A file fine-tuned for
    retrieval is scored by its head `rank_output`.

    Args:
        architecture: BERT on the hub, or a folder, that gives the configuration and the tokenizer.
        revision: branch, tag or commit of the architecture on the hub.
        weights: file of the original code, or `random` (drawn as in BERT).
        source: where the file can be downloaded, for the message if it is missing.
        init_seed: seed that draws random weights.
    """

    require_weights = staticmethod(require_port)

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "bert-base-cased",
        revision: str = "main",
        weights: str = "uniter-base.pt",
        source: str = "",
        init_seed: int = 0,
    ) -> None:
        port = BertPort(architecture, revision, weights, source, init_seed)
        stored = read_state_dict(port.file) if port.file else dict.fromkeys(["itm_output."])
        heads = [head for head in HEADS if any(key.startswith(f"{head}.") for key in stored)]
        prefixes = ("uniter.", *(f"{head}." for head in heads))
        state = {k: v for k, v in stored.items() if k.startswith(prefixes) and k != UNUSED}
        network = port.open(lambda: Network(port.config, heads), state, device, dtype)
        reader = TextReader(port.tokenizer(), port.config.max_position_embeddings, device)
        width = getattr(port.config, "img_dim", REGION_WIDTH)
        super().__init__(network, reader, width, BOX_NUMBERS, has_head=bool(heads))
