"""The ports of BERT's kin as one: their files in the original layouts, and what originals gave."""

import datetime as dt
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from ported import golden, noisy, tiny_folder
from tiny_joint import CPU, adapter

WIDTH = 8
RENAMED = adapter("rosita:RENAMED")
MANY = {"retrieval": True, "task": 7}
STREAM = {"v_feature_size": WIDTH, "v_hidden_size": 12, "v_num_hidden_layers": 2}
STREAM |= {"v_num_attention_heads": 3, "v_intermediate_size": 10, "bi_hidden_size": 6}
STREAM |= {"bi_num_attention_heads": 2, "v_biattention_id": [0, 1], "t_biattention_id": [1, 2]}


class Port(NamedTuple):
    """A port: its adapter, a tiny network's configuration, and what its files have.

    `unused` is what a file has beside the weights; `layout` makes the file's content of both.
    `lost` is a weight [16] of the last layer. `head` begins the names of the head's weights, and
    `refused` is said of a file without them; with those of `match` every pair has the score
    `certain`. `options` are the adapter's; a file also has the weights of a network of each of
    `also`.
    """

    adapter: str
    file: str
    config: dict
    unused: dict
    lost: str
    head: str
    refused: str
    match: dict
    certain: float = 60.0
    whole: bool = True
    options: Mapping = MappingProxyType({})
    also: tuple = ()
    layout: Callable = dict

    @property
    def model(self):
        return adapter(self.adapter)

    def drawn(self, folder, **options):
        """Return the adapter with random weights."""
        given = {"architecture": str(folder), "weights": "random", **self.options, **options}
        return self.model(device=CPU, **given)

    def state(self, folder):
        """Write the configuration, and return weights for it."""
        tiny_folder(folder, **self.config)
        networks = [self.drawn(folder, **more).network for more in ({}, *self.also)]
        return noisy({k: v for network in networks for k, v in network.state_dict().items()})

    def load(self, folder, state, **options):
        """Return the adapter of a file with these weights."""
        weights = str(folder / self.file)
        torch.save(self.layout({**state, **self.unused}), weights)
        given = {"architecture": str(folder), "weights": weights, **self.options, **options}
        return self.model(device=CPU, **given)


def rosita_parts(state):
    """Return what a file of ROSITA's code has: a state dict for each part, and other objects."""
    parts = {"epoch": 3, "net_optim": dt.date(2021, 1, 1)}
    for name, value in state.items():
        for old, new in RENAMED.items():
            name = name.replace(new, old)  # noqa: PLW2901 - one name after the other
        part, _, key = name.partition(".")
        parts.setdefault(part, {})[key] = value
    return parts


def logits(name, width, values):
    """Return weights of a head that gives every pair these logits."""
    return {f"{name}.weight": torch.zeros(2, width), f"{name}.bias": torch.tensor(values)}


UNITER = Port(
    "uniter:Uniter",
    "uniter.pt",
    {"img_dim": WIDTH},
    {
        "uniter.img_embeddings.mask_embedding.weight": torch.ones(2, WIDTH),
        "cls.predictions.bias": torch.ones(3),
    },
    "uniter.encoder.layer.1.output.dense.bias",
    "itm_output",
    "this checkpoint has no matching head",
    # Label 1 is a match.
    logits("itm_output", 16, [0.0, 60.0]),
)
ROSITA = Port(
    "rosita:Rosita",
    "rosita.pkl",
    {"imgfeat_size": WIDTH},
    {"text_mlm_head.bias": torch.ones(3)},
    "backbone.layers.1.output.dense.bias",
    "mm_itm_head",
    "this checkpoint has no matching head",
    logits("mm_itm_head.dense", 16, [0.0, 60.0]),
    layout=rosita_parts,
)
VILBERT = Port(
    "vilbert:Vilbert",
    "vilbert.bin",
    STREAM,
    {
        "bert.encoder.c_layer.0.biOutput.q_dense1.bias": torch.ones(12),
        "vision_logit.bias": torch.ones(1),
    },
    "bert.encoder.c_layer.1.biOutput.dense2.bias",
    "cls.bi_seq_relationship",
    "this checkpoint has no head cls.bi_seq_relationship",
    # Label 0 is a match.
    logits("cls.bi_seq_relationship", 6, [60.0, 0.0]),
    whole=False,
    also=({"retrieval": True},),
)
OF_TASKS = VILBERT._replace(
    head="vil_logit",
    refused="this checkpoint has no head vil_logit",
    match={"vil_logit.weight": torch.zeros(1, 6), "vil_logit.bias": torch.tensor([2.0])},
    # A logit, no probability.
    certain=2.0,
    options=MANY,
    also=({"retrieval": False, "task": None},),
)
PORTS = {"uniter": UNITER, "rosita": ROSITA, "vilbert": VILBERT, "vilbert of tasks": OF_TASKS}


class Original(NamedTuple):
    """A port with an original's weights, the pairs it read, and what the original gave for them.

    `states` are the embeddings and each layer's states [N, L, D], `attentions` each layer's
    [N, heads, L, L], and `real` [N, L] is True where the original has a token or a region. Entry
    [i, j] of `order` is the place in the port's sequence of what the original has at j of pair i.
    `to_regions` has the attention [layers, heads, words, regions] for each pair; `scores` are [N].
    """

    model: object
    pairs: tuple
    states: list
    attentions: list
    real: torch.Tensor
    order: torch.Tensor
    to_regions: list
    scores: torch.Tensor


def uniter_original(real_data, folder, weights="weights.pt"):
    """Return what UNITER's code gave, pre-trained or fine-tuned for retrieval."""
    config = json.loads((real_data / "ports/uniter/config.json").read_text())
    found = golden(real_data, "uniter", folder, **config, img_dim=20)
    given, gave = found.inputs, found.outputs
    attentions = [gave[f"attentions.{i}"] for i in range(3)]
    layers, parts = torch.stack(attentions), zip(given["txt_lens"], given["num_bbs"], strict=True)
    to_regions = [layers[:, i, :, 1 : t - 1, t : t + r] for i, (t, r) in enumerate(parts)]
    rank = gave["itr_rank_scores"][:, 0]
    return Original(
        UNITER.model(device=CPU, architecture=found.folder, weights=str(found.files / weights)),
        (
            found.pictures(given["img_feat"], given["num_bbs"], given["raw_image_wh"]),
            found.texts(given["input_ids"]),
        ),
        [gave["embedding_output"], *(gave[f"hidden_states.{i}"] for i in range(3))],
        attentions,
        given["attn_masks"].bool(),
        # Regions directly follow the words of their text.
        given["gather_index"],
        to_regions,
        rank if "itr" in weights else gave["itm_softmax"][:, 1].logit(),
    )


def rosita_original(real_data, folder, weights="weights.pt"):
    """Return what ROSITA's code gave, fine-tuned or pre-trained."""
    config = {"vocab_size": 120, "hidden_size": 36, "num_hidden_layers": 3}
    config |= {"num_attention_heads": 3, "intermediate_size": 80}
    config |= {"max_position_embeddings": 40, "imgfeat_size": 20}
    found, before = golden(real_data, "rosita", folder, **config), "pretrain" in weights
    prefix = "pretrain." if before else ""
    gave = {k.removeprefix(prefix): v for k, v in found.outputs.items() if k.startswith(prefix)}
    masks = [found.inputs["text_mask"], found.inputs["imgfeat_mask"]]
    counts = [mask.sum(1).int() for mask in masks]
    attentions = [gave[f"attentions.{i}"] for i in range(3)]
    layers, real = torch.stack(attentions), torch.cat(masks, 1).bool()
    parts = [gave[f"{kind}_embeddings"] for kind in ("text", "visual")]
    sizes = found.inputs["raw_image_hw"].flip(1)
    return Original(
        ROSITA.model(device=CPU, architecture=found.folder, weights=str(found.files / weights)),
        (
            found.pictures(found.inputs["imgfeat_input"], counts[1], sizes),
            found.texts(found.inputs["text_ids"]),
        ),
        [torch.cat(parts, 1), *(gave[f"hidden_states.{i}"] for i in range(3))],
        attentions,
        real,
        torch.arange(real.shape[1]).expand(real.shape),
        [
            layers[:, i, :, 1 : t - 1, 12 : 12 + r]
            for i, (t, r) in enumerate(zip(*counts, strict=True))
        ],
        gave["itm_softmax"][:, 1].logit(),
    )


def vilbert_original(real_data, folder):
    """Return what ViLBERT's code read and gave, its files, and the pairs it read."""
    config = json.loads((real_data / "ports/vilbert/config.json").read_text())
    found = golden(real_data, "vilbert", folder, **config)
    given = found.inputs
    counts, sizes = given["raw_num_boxes"], given["raw_image_wh"]
    pictures = found.pictures(given["features"][:, 1:], counts, sizes)
    return found, (pictures, found.texts(given["input_ids"]))
