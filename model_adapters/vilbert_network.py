"""The network of ViLBERT: a port of the code at github.com/facebookresearch/vilbert-multi-task."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vlbench.adapter_kit.bert_ports import bert_layers, bert_part, hide, run_layers
from vlbench.adapter_kit.matching_heads import log_odds

# The published sizes, for a configuration that does not set them.
PUBLISHED = {
    "v_feature_size": 2048,
    "v_hidden_size": 1024,
    "v_num_hidden_layers": 6,
    "v_num_attention_heads": 8,
    "v_intermediate_size": 1024,
    "bi_hidden_size": 1024,
    "bi_num_attention_heads": 8,
    "v_biattention_id": [0, 1, 2, 3, 4, 5],
    "t_biattention_id": [6, 7, 8, 9, 10, 11],
}
BOX_NUMBERS = 5
TASKS = 20

# The heads that score a pair: of pre-training, and of fine-tuning for retrieval.
MATCH = "cls.bi_seq_relationship"
RETRIEVAL = "vil_logit"


class Inputs(NamedTuple):
    """Ids of tokens [N, T], regions [N, R, D], boxes [N, R, 5], and masks of text and image.

    The first region of each picture is the whole picture. The text's mask includes the task token.
    """

    ids: Tensor
    text_mask: Tensor
    vectors: Tensor
    boxes: Tensor
    image_mask: Tensor


class Joined(NamedTuple):
    """A connection's output: both streams, the text's attention to regions, and the reverse."""

    text: Tensor
    image: Tensor
    to_regions: Tensor
    to_words: Tensor


class Encoded(NamedTuple):
    """The last hidden states of both streams, and the outputs of all layers and connections."""

    text: Tensor
    image: Tensor
    text_layers: list[Tensor]
    image_layers: list[Tensor]
    connections: list[Joined]


class RegionEmbeddings(nn.Module):
    """Embeds regions [N, R, D] and their boxes [N, R, 5]."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.image_embeddings = nn.Linear(config.v_feature_size, config.v_hidden_size)
        self.image_location_embeddings = nn.Linear(BOX_NUMBERS, config.v_hidden_size)
        self.LayerNorm = nn.LayerNorm(config.v_hidden_size, eps=config.layer_norm_eps)

    def forward(self, vectors: Tensor, boxes: Tensor) -> Tensor:
        """Return [N, R, hidden]."""
        summed = self.image_embeddings(vectors) + self.image_location_embeddings(boxes)
        embedded: Tensor = self.LayerNorm(summed)
        return embedded


class Connection(nn.Module):
    """A layer in which each stream attends to the other. Number 1 is the image, 2 the text."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.heads = config.bi_num_attention_heads
        both, eps = config.bi_hidden_size, config.layer_norm_eps
        self.biattention, self.biOutput = nn.ModuleDict(), nn.ModuleDict()
        for number, width in ((1, config.v_hidden_size), (2, config.hidden_size)):
            for part in ("query", "key", "value"):
                self.biattention[f"{part}{number}"] = nn.Linear(width, both)
            self.biOutput[f"dense{number}"] = nn.Linear(both, width)
            self.biOutput[f"LayerNorm{number}"] = nn.LayerNorm(width, eps=eps)
        for name, settings in (("v", _visual(config)), ("t", config)):
            self.add_module(f"{name}_intermediate", bert_part("BertIntermediate", settings))
            self.add_module(f"{name}_output", bert_part("BertOutput", settings))

    def forward(self, text: Tensor, image: Tensor, inputs: Inputs) -> Joined:
        """Return both streams after attention to each other."""
        seen, to_regions = self._look(text, 2, image, 1, inputs.image_mask)
        read, to_words = self._look(image, 1, text, 2, inputs.text_mask)
        text = self.biOutput["LayerNorm2"](self.biOutput["dense2"](seen) + text)
        image = self.biOutput["LayerNorm1"](self.biOutput["dense1"](read) + image)
        text = self.t_output(self.t_intermediate(text), text)
        image = self.v_output(self.v_intermediate(image), image)
        return Joined(text, image, to_regions, to_words)

    def _look(
        self, one: Tensor, of_one: int, other: Tensor, of_other: int, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the output of one stream's attention to the other, [N, L, D], and its weights."""
        parts = self.biattention
        query, key, value = (
            parts[name](states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name, states in (
                (f"query{of_one}", one),
                (f"key{of_other}", other),
                (f"value{of_other}", other),
            )
        )
        logits = query @ key.mT / query.shape[-1] ** 0.5
        weights = (logits + hide(mask, logits.dtype)).softmax(-1)
        return (weights @ value).transpose(1, 2).flatten(2), weights


class Network(nn.Module):
    """The network under the original names, with the head MATCH, RETRIEVAL or none.

    `config` is a BERT's configuration with the sizes of PUBLISHED. `task` is the number of the task
    whose token every text gets; None for no token.
    """

    def __init__(self, config: Any, head: str, task: int | None) -> None:
        super().__init__()
        embeddings = bert_part("BertEmbeddings", config)
        if task is not None:
            embeddings.task_embeddings = nn.Embedding(TASKS, config.hidden_size)
        layers = {
            "layer": bert_layers(config),
            "v_layer": bert_layers(_visual(config)),
            "c_layer": nn.ModuleList(Connection(config) for _ in config.v_biattention_id),
        }
        parts = {
            "embeddings": embeddings,
            "v_embeddings": RegionEmbeddings(config),
            "encoder": nn.ModuleDict(layers),
            "t_pooler": _dense(config.hidden_size, config.bi_hidden_size),
            "v_pooler": _dense(config.v_hidden_size, config.bi_hidden_size),
        }
        self.bert = nn.ModuleDict(parts)
        if head == RETRIEVAL:
            self.vil_logit = nn.Linear(config.bi_hidden_size, 1)
        elif head == MATCH:
            relation = nn.Linear(config.bi_hidden_size, 2)
            self.cls = nn.ModuleDict({"bi_seq_relationship": relation})
        self._task = task
        text_ends = [*config.t_biattention_id, config.num_hidden_layers]
        image_ends = [*config.v_biattention_id, config.v_num_hidden_layers]
        # The number of layers of each stream before each connection; none follows the last layer.
        self._ends = list(zip(text_ends, image_ends, strict=True))

    def embed(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the embeddings of texts, with the task's token, and of regions."""
        words: Any = self.bert["embeddings"]
        embedded = words.word_embeddings(inputs.ids) + words.token_type_embeddings.weight[0]
        text = embedded + words.position_embeddings.weight[: inputs.ids.shape[1]]
        if self._task is not None:
            token = words.task_embeddings.weight[self._task].expand(len(text), 1, -1)
            text = torch.cat([text[:, :1], token, text[:, 1:]], 1)
        vectors, boxes = inputs.vectors.to(text.dtype), inputs.boxes.to(text.dtype)
        return words.LayerNorm(text), self.bert["v_embeddings"](vectors, boxes)

    def forward(self, inputs: Inputs) -> Encoded:
        """Return the outputs of all layers and connections."""
        text, image = self.embed(inputs)
        encoder: Any = self.bert["encoder"]
        texts: list[Tensor] = []
        images: list[Tensor] = []
        joined: list[Joined] = []
        steps = zip(self._ends, [*encoder["c_layer"], None], strict=True)
        for (text_end, image_end), connect in steps:
            layers = encoder["layer"][len(texts) : text_end]
            texts += run_layers(layers, text, inputs.text_mask).states
            text = texts[-1] if len(layers) else text
            layers = encoder["v_layer"][len(images) : image_end]
            images += run_layers(layers, image, inputs.image_mask).states
            image = images[-1] if len(layers) else image
            if connect is not None:
                joined.append(connect(text, image, inputs))
                text, image = joined[-1][:2]
        return Encoded(text, image, texts, images, joined)

    def scores(self, encoded: Encoded) -> Tensor:
        """Return matching scores, float32 [N]: log-odds, or a logit to rank by."""
        text, image = self.pooled(encoded)
        if hasattr(self, RETRIEVAL):
            logit: Tensor = self.vil_logit(text * image)
            return logit.float()[:, 0]
        relation: Any = self.cls
        # Label 0 is a match, as in the next-sentence prediction of BERT.
        return log_odds(relation["bi_seq_relationship"](text * image), match=0)

    def pooled(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """Return a vector of each text and of each picture, [N, D] both."""
        parts: Any = self.bert
        text = parts["t_pooler"]["dense"](encoded.text[:, 0]).relu()
        return text, parts["v_pooler"]["dense"](encoded.image[:, 0]).relu()


def fill_sizes(config: Any) -> Any:
    """Return a BERT's configuration with the published sizes for absent ones."""
    changed = copy.deepcopy(config)
    for name, value in PUBLISHED.items():
        setattr(changed, name, getattr(config, name, value))
    return changed


def _visual(config: Any) -> Any:
    """Return the configuration of the layers of the image's stream."""
    changed = copy.deepcopy(config)
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
        setattr(changed, name, getattr(config, f"v_{name}"))
    return changed


def _dense(width: int, both: int) -> nn.ModuleDict:
    return nn.ModuleDict({"dense": nn.Linear(width, both)})
