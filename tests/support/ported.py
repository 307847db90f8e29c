"""Ports of original code: its stored outputs for tiny weights, and files in its layout."""

import json
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from tiny_joint import TINY, write_words

from vlbench.capabilities import Picture, Regions

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


class Golden(NamedTuple):
    """What the original code got and gave, and where its weights and its configuration lie."""

    inputs: dict
    outputs: dict
    files: Path
    folder: str

    def texts(self, ids):
        """Return texts of which the tokenizer in the folder makes these ids [N, T]."""
        words = (Path(self.folder) / "vocab.txt").read_text().split()
        return [" ".join(words[i] for i in row[1 : row.index(3)]) for row in ids.tolist()]

    def pictures(self, vectors, counts, sizes):
        """Return pictures of the first regions of each example; sizes [N, 2] are (W, H)."""
        boxes = self.inputs["raw_boxes_xyxy_pixels"]
        rows = zip(boxes, vectors, counts.tolist(), sizes.int().tolist(), strict=True)
        return [Picture(None, Regions(b[:n], v[:n], None, None, (*s,))) for b, v, n, s in rows]


def golden(real_data, name, folder, **config):
    """Return the outputs of an original network, and write a folder of its configuration."""
    files = real_data / "ports" / name
    words = [*SPECIAL, *(f"w{i}" for i in range(5, config["vocab_size"]))]
    (folder / "vocab.txt").write_text("\n".join(words))
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    inputs, outputs = (load_file(files / f"{what}.safetensors") for what in ("inputs", "outputs"))
    return Golden(inputs, outputs, files, str(folder))


def tiny_folder(folder, **config):
    """Write the configuration and the words of a tiny network."""
    (folder / "config.json").write_text(json.dumps({**TINY, **config, "model_type": "bert"}))
    return write_words(folder)


def noisy(network, scale=0.3):
    """Return the weights of a network, large enough for every one of them to matter."""
    rng = torch.Generator().manual_seed(0)
    drawn = {k: scale * torch.randn(v.shape, generator=rng) for k, v in network.items()}
    return {k: v + ("LayerNorm.weight" in k or "layer_norm.weight" in k) for k, v in drawn.items()}


def near(found, expected):
    """Say that tensors are equal up to 1e-5."""
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
